//! Entry points for the fuzz targets (`fuzz/`): everything here that reads text of a user or a server.
//!
//! Nothing may panic, whatever is read. The other requirements are asserted.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use distlock_store::kit::connection::ConnectionOptions;

use super::command::Wire;
use super::config::{Address, RedisConfig};
use super::names::Names;
use super::{cluster, errors, handshake, info, push, reply};
use crate::backend::{AcquireMode, LockKind, Token, Tuning, op};
use crate::protocol::records::{read_hold_record, read_process_record};
use distlock_store::Escaped;

const CLIENT: &str = "c";
const PASSWORD: &str = "s3cretPassword";

/// A URL as passed to the builder; also with a password inserted, which no message may show.
pub fn url(text: &str) {
    read(text);
    // The fuzzer learns the password from this comparison.
    if let Some((scheme, rest)) = text.split_once("://")
        && !text.contains("s3cret")
    {
        for login in [format!("{scheme}://user:{PASSWORD}@{rest}"), format!("{scheme}://:{PASSWORD}@{rest}")]
        {
            for told in read(&login) {
                assert!(!told.contains(PASSWORD), "{login}: {told}");
            }
        }
    }
}

/// Every message about a URL.
fn read(url: &str) -> Vec<String> {
    let (mut told, mut configs) = (Vec::new(), Vec::new());
    match RedisConfig::with(url, CLIENT, &ConnectionOptions::default()) {
        Ok(config) => configs.push(config),
        Err(mistake) => told.push(mistake.to_string()),
    }
    match RedisConfig::of_quorum(url, CLIENT, &ConnectionOptions::default()) {
        Ok(members) => configs.extend(members),
        Err(mistake) => told.push(mistake.to_string()),
    }
    for config in &configs {
        told.push(config.at());
        told.push(format!("{config:?}"));
        told.extend(config.check().err().map(|error| error.to_string()));
    }
    told
}

/// Bytes from a server.
pub fn server(data: &[u8]) {
    reply(data);
    if let Ok(text) = str::from_utf8(data) {
        push(text);
        record(text);
        info(text);
    }
    // The text of `CLUSTER INFO` follows a zero byte.
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let (slots, info) = data.split_at(end);
    cluster(slots, str::from_utf8(info.get(1..).unwrap_or_default()).unwrap_or_default());
}

/// A reply to any of our commands.
fn reply(bytes: &[u8]) {
    let Ok(value) = redis::parse_redis_value(bytes) else { return };
    let token = Token(7);
    let (ttl, claim) = (Duration::from_secs(10), Duration::from_secs(3));
    let enter = |kind| op::Acquire { token, kind, ttl, claim, mode: AcquireMode::Wait, fences: 1 };
    for kind in [LockKind::Exclusive, LockKind::Shared] {
        drop(reply::of_acquire(CLIENT, &enter(kind), &value));
        drop(reply::of_renew(CLIENT, &op::Renew { token, kind, ttl, last: false }, &value));
    }
    let replace = op::Replace { token, ttl, fences: 1, holder: Arc::from("dl1:c:1") };
    drop(reply::of_replace(CLIENT, &replace, &value));
    let leave = op::Release::new(token, op::Ends::ExclusiveLease);
    drop(reply::of_release(CLIENT, &leave, &value));
    drop(reply::of_fence(CLIENT, &op::Fence { token, first: 1, count: 1 }, &value));
    drop(reply::of_set(CLIENT, token, &value));
    let batch: Vec<(Arc<str>, op::Acquire)> =
        (0..5).map(|_| (Arc::from("k"), enter(LockKind::Shared))).collect();
    if let Ok(replies) = reply::of_enter_all(CLIENT, &batch, &value) {
        assert!(replies.len() <= batch.len());
    }
    drop(reply::of_force(&value));
    reply::of_time(&value);
    drop((reply::of_look(&value), reply::of_record(&value), reply::of_scan(&value)));
    if let Value::ServerError(error) = &value {
        errors::is_wrong_server(error);
        drop(errors::replied(error.clone()));
    }
}

/// The replies of a cluster node to `CLUSTER SLOTS` and `CLUSTER INFO`, and redirections.
fn cluster(bytes: &[u8], info: &str) {
    let asked = Address::Tcp { host: "127.0.0.1".to_owned(), port: 6379 };
    cluster::fuzz(&asked, redis::parse_redis_value(bytes).ok(), info);
}

/// `INFO`, `CLIENT INFO`, `ROLE`.
fn info(text: &str) {
    for name in ["run_id", "redis_version", "maxmemory", "maxmemory_policy", "uptime_in_seconds"] {
        info::field(Some(text), name);
    }
    handshake::identify(text);
}

/// A message on the push channel.
fn push(text: &str) {
    let wire = Wire::new(Names::new("p:".to_owned()), CLIENT.to_owned(), &Tuning::default());
    if let Some((push, _)) = push::parse(&wire, text) {
        let key = push.key();
        assert!(text.ends_with(&**key), "a push for another key");
    }
}

/// What another client has written about itself and its lock, and its words in an error.
fn record(text: &str) {
    let left = Duration::from_secs(3);
    drop((read_process_record(text, left), read_hold_record(text, left)));
    assert!(!Escaped(text).to_string().contains(char::is_control));
}

/// The inputs from which the fuzz targets start pass. So do inputs that have found a bug, which are kept with
/// them.
#[cfg(test)]
mod tests {
    use std::path::Path;

    fn seeds(target: &str) -> Vec<Vec<u8>> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(target);
        let files = std::fs::read_dir(&directory).unwrap().map(|file| file.unwrap().path());
        files.map(|path| std::fs::read(path).unwrap()).collect()
    }

    #[test]
    fn seeds_of_urls_pass() {
        for seed in seeds("urls") {
            super::url(str::from_utf8(&seed).unwrap());
        }
    }

    #[test]
    fn seeds_of_replies_pass() {
        for seed in seeds("replies") {
            super::server(&seed);
        }
    }
}
