//! The common part of all topologies of Redis.

use std::time::Duration;

use distlock_tests::{RedisServer, residue};
use fastrand::Rng;

use super::{Harm, sleep};

/// A fault that a server survives with all its data. `longest` is the maximum of its silence, in milliseconds.
pub(super) fn disturb(server: &RedisServer, rng: &mut Rng, longest: u64) -> Harm {
    match rng.u32(..7) {
        0 => drop(server.raw(&["CLIENT", "KILL", "TYPE", "normal"])),
        1 => drop(server.raw(&["CLIENT", "KILL", "TYPE", "pubsub"])),
        2 => {
            let time = rng.u64(20..longest);
            let what = if rng.bool() { "ALL" } else { "WRITE" };
            server.raw(&["CLIENT", "PAUSE", &time.to_string(), what]);
            std::thread::sleep(Duration::from_millis(time));
        }
        3 => drop(server.raw(&["SCRIPT", "FLUSH"])),
        4 => for_a_while(server, rng, ["maxmemory", "1", "0"]),
        5 => for_a_while(server, rng, ["min-replicas-to-write", "3", "0"]),
        _ => {
            server.stop();
            sleep(rng, 20..longest);
            server.cont();
        }
    }
    Harm::None
}

/// Sets an option, and resets it later. Meanwhile, every write is refused.
fn for_a_while(server: &RedisServer, rng: &mut Rng, [option, value, normal]: [&str; 3]) {
    server.raw(&["CONFIG", "SET", option, value]);
    sleep(rng, 50..1_500);
    server.raw(&["CONFIG", "SET", option, normal]);
}

/// Keys that should not exist after all processes have released their locks and ended, and keys without a ttl.
pub(super) fn residue<'a>(masters: impl IntoIterator<Item = &'a RedisServer>) -> Vec<String> {
    masters.into_iter().flat_map(residue_on).collect()
}

fn residue_on(server: &RedisServer) -> Vec<String> {
    let mut keys = residue::keys(server);
    // `min_hold` keeps keys on purpose. The remaining places in queues belong to killed processes.
    keys.retain(|key| {
        let expires = server.pttl(key) != -1;
        let kept = key.starts_with("dl1:")
            || server.try_raw(&["GET", key]).is_ok_and(|value| {
                ::redis::from_redis_value::<Option<String>>(value)
                    .is_ok_and(|value| value.is_none_or(|value| value == "dl1:hold"))
            });
        !expires || !kept
    });
    keys
}
