//! The scripts that run on the server. The file of each script states its contract: KEYS, ARGV, reply. Libraries come
//! before the script. They define functions that get all data as parameters.

use std::sync::LazyLock;

use redis::Script;

/// A script, and the hash that the server knows it by.
#[derive(Debug)]
pub(super) struct Lua {
    pub(super) code: &'static str,
    pub(super) hash: String,
}

impl Lua {
    fn new(code: &'static str) -> Lua {
        Lua { code, hash: Script::new(code).get_hash().to_owned() }
    }
}

#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) enter: Lua,
    pub(super) enter_n: Lua,
    pub(super) enter_all: Lua,
    pub(super) enter_all_n: Lua,
    pub(super) leave: Lua,
    pub(super) leave_alone: Lua,
    pub(super) renew: Lua,
    pub(super) renew_n: Lua,
    pub(super) replace: Lua,
    pub(super) force: Lua,
    pub(super) fence: Lua,
    pub(super) look: Lua,
    pub(super) scan: Lua,
}

impl Scripts {
    pub(super) fn all(&self) -> [&Lua; 13] {
        [
            &self.enter,
            &self.enter_n,
            &self.enter_all,
            &self.enter_all_n,
            &self.leave,
            &self.leave_alone,
            &self.renew,
            &self.renew_n,
            &self.replace,
            &self.force,
            &self.fence,
            &self.look,
            &self.scan,
        ]
    }
}

/// Joins the files of a script, in this order.
macro_rules! lua {
    ($($part:literal)*) => {
        Lua::new(concat!($(include_str!(concat!("scripts/", $part, ".lua"))),*))
    };
}

pub(super) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts {
    enter: lua!("clock" "push" "queue" "enter"),
    enter_n: lua!("clock" "push" "queue" "members" "join" "enter_n"),
    enter_all: lua!("clock" "push" "queue" "enter_all"),
    enter_all_n: lua!("clock" "push" "queue" "members" "join" "enter_all_n"),
    leave: lua!("leave_fast" "clock" "push" "gap" "hand_on" "queue" "members" "serve" "leave"),
    leave_alone: lua!("leave_alone"),
    renew: lua!("clock" "replica" "renew"),
    renew_n: lua!("clock" "members" "renew_n"),
    replace: lua!("clock" "replica" "replace"),
    force: lua!("clock" "push" "gap" "queue" "members" "serve" "force"),
    fence: lua!("clock" "fence"),
    look: lua!("look"),
    scan: lua!("scan"),
});
