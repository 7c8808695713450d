//! The scripts that run on the server. Each file states its contract: KEYS, ARGV, reply.

use std::sync::LazyLock;

use redis::Script;

/// One script and the hash by which the server knows it.
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
    pub(super) leave: Lua,
    pub(super) renew: Lua,
    pub(super) force: Lua,
}

impl Scripts {
    pub(super) fn all(&self) -> [&Lua; 4] {
        [&self.enter, &self.leave, &self.renew, &self.force]
    }
}

pub(super) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts {
    enter: Lua::new(concat!(include_str!("scripts/clock.lua"), include_str!("scripts/enter.lua"))),
    leave: Lua::new(concat!(
        include_str!("scripts/leave.lua"),
        include_str!("scripts/clock.lua"),
        include_str!("scripts/serve.lua")
    )),
    renew: Lua::new(concat!(include_str!("scripts/clock.lua"), include_str!("scripts/renew.lua"))),
    force: Lua::new(concat!(
        include_str!("scripts/force.lua"),
        include_str!("scripts/clock.lua"),
        include_str!("scripts/serve.lua")
    )),
});
