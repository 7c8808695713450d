//! The keys that a test has left. No key of distlock may outlive its ttl or be without one.
//!
//! Names, for a prefix `P`: the lock is the string key `P` + key; auxiliary keys are `P` + `dl1:q:…` (queue), `dl1:e:…`
//! (entries), `dl1:m:…` (members); `dl1:f…` (the fencing counter) and `dl1:run…` (a quorum's notes on its servers) are
//! deliberately kept for 30 days.

use std::time::{Duration, Instant};

use crate::{BOUND, RedisServer};

/// How long the deliberately kept keys stay, plus a day for the tests that set a server's clock back.
const KEPT: Duration = Duration::from_secs(31 * 24 * 3600);

/// The keys that should not exist: all except the deliberately kept ones.
#[must_use]
pub fn keys(server: &RedisServer) -> Vec<String> {
    keys_below(server, "")
}

/// The [`keys`] that begin with `prefix`.
#[must_use]
pub fn keys_below(server: &RedisServer, prefix: &str) -> Vec<String> {
    server.keys_below(prefix).into_iter().filter(|key| !is_kept(key)).collect()
}

/// Waits until only the deliberately kept keys are left, which must have a ttl, too.
///
/// # Panics
/// If a key stays.
pub async fn none(server: &RedisServer) {
    none_below(std::slice::from_ref(server), "").await;
}

/// The keys below `prefix` that are left on these servers and are not deliberately kept, and the deliberately kept ones
/// that would stay forever.
#[must_use]
pub fn left_below(servers: &[RedisServer], prefix: &str) -> Vec<String> {
    let mut left = Vec::new();
    for server in servers {
        left.extend(describe(server, &keys_below(server, prefix)));
        let bound = i64::try_from(KEPT.as_millis()).unwrap();
        let lasting = |key: &String| !(1..=bound).contains(&server.pttl(key));
        let kept = server.keys_below(prefix).into_iter().filter(|key| is_kept(key) && lasting(key));
        left.extend(kept.map(|key| format!("{key}, without a ttl")));
    }
    left
}

/// Like [`none`], for the keys on several servers that begin with `prefix`.
///
/// # Panics
/// If a key stays.
pub async fn none_below(servers: &[RedisServer], prefix: &str) {
    let start = Instant::now();
    for server in servers {
        loop {
            let left = keys_below(server, prefix);
            if left.is_empty() {
                break;
            }
            assert!(start.elapsed() < BOUND, "left after {BOUND:?}: {:?}", describe(server, &left));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        for key in server.keys_below(prefix) {
            let pttl = server.pttl(&key);
            let bound = i64::try_from(KEPT.as_millis()).unwrap();
            assert!((1..=bound).contains(&pttl), "`{key}` has a ttl of {pttl} ms");
        }
    }
}

/// Asserts that every key of distlock expires within `ttl`.
///
/// # Panics
/// If one does not.
pub fn expires_within(server: &RedisServer, ttl: Duration) {
    let bound = i64::try_from(ttl.as_millis()).unwrap();
    for key in keys(server) {
        let pttl = server.pttl(&key);
        assert!(
            pttl == -2 || (0..=bound).contains(&pttl),
            "`{key}` has a ttl of {pttl} ms, more than {ttl:?}"
        );
    }
}

fn describe(server: &RedisServer, keys: &[String]) -> Vec<String> {
    let value = |key: &str| {
        server.try_raw(&["GET", key]).map_or_else(|error| error.to_string(), |it| format!("{it:?}"))
    };
    keys.iter().map(|key| format!("{key} = {} ({} ms)", value(key), server.pttl(key))).collect()
}

fn is_kept(key: &str) -> bool {
    // One fencing counter for each prefix. In a cluster, one for each slot, with a hash tag.
    let is_fence =
        key.rsplit_once("dl1:f").is_some_and(|(_, rest)| rest.is_empty() || rest.starts_with([':', '{']));
    is_fence || key.contains("dl1:run")
}
