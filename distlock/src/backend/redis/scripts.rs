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

/// Defines [`SCRIPTS`]. Each script is made of these files, in this order.
macro_rules! scripts {
    ($($name:ident: $($part:literal)*;)*) => {
        #[derive(Debug)]
        pub(super) struct Scripts {
            $(pub(super) $name: Lua,)*
        }

        impl Scripts {
            pub(super) fn all(&self) -> Vec<&Lua> {
                vec![$(&self.$name),*]
            }
        }

        pub(super) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts {
            $($name: Lua::new(concat!($(include_str!(concat!("scripts/", $part, ".lua"))),*)),)*
        });
    };
}

scripts! {
    enter: "clock" "push" "queue" "enter";
    enter_n: "clock" "push" "queue" "members" "join" "enter_n";
    enter_all: "clock" "push" "queue" "enter_all";
    enter_all_n: "clock" "push" "queue" "members" "join" "enter_all_n";
    leave: "leave_fast" "clock" "push" "gap" "hand_on" "queue" "members" "serve" "leave";
    leave_alone: "leave_alone";
    renew: "clock" "replica" "renew";
    renew_n: "clock" "members" "renew_n";
    replace: "clock" "replica" "replace";
    force: "clock" "replica" "push" "gap" "queue" "members" "serve" "force";
    fence: "clock" "fence";
    look: "look";
    scan: "scan";
}
