//! Entry points for the fuzz targets (`fuzz/`): everything here that reads text of a user or a server.
//!
//! No input may cause a panic. The other requirements are asserted.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use redis::Value;

use distlock_store::kit::connection::ConnectionOptions;

use super::command::Wire;
use super::config::{Address, RedisConfig};
use super::diagnosis::{self, Setup};
use super::names::Names;
use super::{cluster, errors, handshake, info, listing, push, reply, sentinel, sentinel_events};
use crate::backend::{AcquireMode, LockKind, Token, Tuning, client_of, op};
use crate::protocol::records::{hold_record, process_record, read_hold_record, read_process_record};
use crate::protocol::{HoldAccount, parse_owner, shared_token_text, token_text};
use distlock_store::engine::LONGEST_NAME;
use distlock_store::{Escaped, LONGEST_VALUE};

const CLIENT: &str = "c";
const PASSWORD: &str = "s3cretPassword";

/// A URL as passed to the builder, without and with an inserted password, which no message may show.
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
    sentinel_events::is_about("m", data);
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

/// A reply to any command.
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
    sentinel::epoch(&value);
    if let Value::Array(values) = &value {
        let (setup, now) = (Setup::Single { confirmed: false }, SystemTime::now());
        diagnosis::found(values, "r", setup, (now, now));
    }
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

/// Names of keys and records, one in each line: what a search finds, and what other clients have written.
pub fn records(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    listing::fuzz(text.lines(), text);
    text.lines().chain([text]).for_each(|line| {
        record(line);
        owner(line);
    });
}

/// The records of another client, and an error that contains its text.
fn record(text: &str) {
    let (left, ttl) = (Duration::from_secs(3), Duration::from_secs(60));
    if let Some((who, _)) = read_process_record(text, left) {
        let names = [&who.host, &who.program, &who.version];
        assert!(names.into_iter().flatten().all(|name| name.len() <= LONGEST_NAME), "a name too long");
        let again = process_record(ttl, &who);
        assert_eq!(read_process_record(&again, ttl), Some((who, Duration::ZERO)), "{again}");
    }
    if let Some(details) = read_hold_record(text, left) {
        let (value, label) = (details.value.as_deref(), details.label.clone().unwrap_or_default());
        assert!(value.is_none_or(|value| value.len() <= LONGEST_VALUE), "a value too long");
        let (token, kind, users) = (Token(7), LockKind::Shared, details.users.unwrap_or_default());
        let hold = HoldAccount { token, kind, users, label, since: left, left: ttl };
        let again = read_hold_record(&hold_record(ttl, &hold, value), ttl);
        let again = again.map(|again| (again.label, again.value, again.users));
        assert_eq!(again, Some((details.label, details.value, details.users)), "{text}");
    }
    assert!(!Escaped(text).to_string().contains(char::is_control));
}

/// The name of another client as the holder of a lock.
fn owner(text: &str) {
    if let Some((client, token)) = parse_owner(text) {
        let again = token_text(client, token);
        assert_eq!(parse_owner(&again), Some((client, token)), "{text}");
        assert_eq!(*shared_token_text(client, token), again);
    }
    assert!(client_of(text).is_none_or(|client| text.contains(client)));
}

#[cfg(test)]
#[path = "../../../../fuzz/read_seeds.rs"]
pub(crate) mod read_seeds;

#[cfg(test)]
mod tests {
    use super::read_seeds::seeds;

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
