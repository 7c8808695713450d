//! A store that checks fencing tokens, as `UPDATE … SET fence = $1 WHERE fence <= $1` does.
//!
//! It lives on a server of its own, which no test harms, and keeps a journal of all writes, refused ones too.

use crate::RedisServer;

const WRITE: &str = "
local name, fence = KEYS[1], tonumber(ARGV[1])
local accepted = tonumber(redis.call('GET', name) or '0') <= fence
if accepted then redis.call('SET', name, ARGV[1]) end
redis.call('RPUSH', name .. ':journal', ARGV[1] .. (accepted and ' accepted' or ' refused'))
return accepted and 1 or 0";

/// A register per name, each of which takes no write with an older token than the last.
#[derive(Debug)]
pub struct FencedRegister {
    server: RedisServer,
}

/// A write that somebody tried, in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// The token it came with.
    pub fence: u64,
    /// Whether it was carried out.
    pub accepted: bool,
}

impl FencedRegister {
    /// An empty one.
    #[must_use]
    pub fn start() -> Self {
        Self { server: RedisServer::start() }
    }

    /// Where writers connect.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// A connection for [`write`](FencedRegister::write).
    #[must_use]
    pub fn connect(url: &str) -> redis::Connection {
        redis::Client::open(url).unwrap().get_connection().expect("the register is up")
    }

    /// Writes, and says whether the token was new enough.
    pub fn write(connection: &mut redis::Connection, name: &str, fence: u64) -> bool {
        redis::Script::new(WRITE).key(name).arg(fence).invoke(connection).expect("the register is up")
    }

    /// What was tried.
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
