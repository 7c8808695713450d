//! A store that checks fencing tokens, like `UPDATE … SET fence = $1 WHERE fence <= $1`.
//!
//! It has a separate server without faults, and keeps a journal of all writes, including refused ones.

use crate::RedisServer;

const WRITE: &str = "
local name, fence = KEYS[1], tonumber(ARGV[1])
local accepted = tonumber(redis.call('GET', name) or '0') <= fence
if accepted then redis.call('SET', name, ARGV[1]) end
redis.call('RPUSH', name .. ':journal', ARGV[1] .. (accepted and ' accepted' or ' refused'))
return accepted and 1 or 0";

/// A register for each name. It refuses a write with an older token than the last one.
#[derive(Debug)]
pub struct FencedRegister {
    server: RedisServer,
}

/// An attempt to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// The token of the write.
    pub fence: u64,
    /// Whether it was executed.
    pub accepted: bool,
}

impl FencedRegister {
    /// An empty register.
    #[must_use]
    pub fn start() -> Self {
        Self { server: RedisServer::start() }
    }

    /// The URL for writers.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// A connection for [`write`](FencedRegister::write).
    #[must_use]
    pub fn connect(url: &str) -> redis::Connection {
        redis::Client::open(url).unwrap().get_connection().expect("the register is up")
    }

    /// Writes, and returns whether the token was new enough.
    pub fn write(connection: &mut redis::Connection, name: &str, fence: u64) -> bool {
        redis::Script::new(WRITE).key(name).arg(fence).invoke(connection).expect("the register is up")
    }

    /// All attempts, in the order of arrival.
    #[must_use]
    pub fn journal(&self, name: &str) -> Vec<Write> {
        let lines: Vec<String> =
            redis::from_redis_value(self.server.raw(&["LRANGE", &format!("{name}:journal"), "0", "-1"]))
                .unwrap();
        let write = |line: &String| {
            let (fence, verdict) = line.split_once(' ').unwrap();
            Write { fence: fence.parse().unwrap(), accepted: verdict == "accepted" }
        };
        lines.iter().map(write).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_token_is_refused_and_noted() {
        let register = FencedRegister::start();
        let mut connection = FencedRegister::connect(&register.url());
        let written = [5, 5, 4, 6].map(|fence| FencedRegister::write(&mut connection, "k", fence));
        assert_eq!(written, [true, true, false, true]);
        let journal = register.journal("k");
        assert_eq!(journal.iter().map(|write| write.fence).collect::<Vec<_>>(), [5, 5, 4, 6]);
        assert!(!journal[2].accepted && journal[3].accepted);
    }
}
