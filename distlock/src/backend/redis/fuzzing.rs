//! Ways in for the fuzz targets (`fuzz/`): everything here that reads what a user or a server wrote.
//!
//! Nothing may panic, whatever is read; what else must hold is asserted.

use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::super::{EnterMode, Kind, Op, Token, Tuning};
use super::command::Wire;
use super::config::{Address, RedisConfig};
use super::names::Names;
use super::{cluster, errors, greet, push, reply};

const CLIENT: &str = "c";
const PASSWORD: &str = "s3cretPassword";

/// A URL, as it is given to the builder; also with a password put into it, which no message may show.
pub fn url(text: &str) {
    read(text);
    if let Some((scheme, rest)) = text.split_once("://") {
        for login in [format!("{scheme}://user:{PASSWORD}@{rest}"), format!("{scheme}://:{PASSWORD}@{rest}")]
        {
            for told in read(&login) {
                assert!(!told.contains(PASSWORD), "{login}: {told}");
            }
        }
    }
}

/// Everything that is told about a URL.
fn read(url: &str) -> Vec<String> {
    let mut told = Vec::new();
    let mut note = |config: &RedisConfig| {
        told.push(config.at());
        told.push(format!("{config:?}"));
        told.extend(config.check().err());
    };
    match RedisConfig::new(url, CLIENT) {
        Ok(config) => note(&config),
        Err(mistake) => told.push(mistake),
    }
    match RedisConfig::of_quorum(url, CLIENT) {
        Ok(configs) => configs.iter().for_each(note),
        Err(mistake) => told.push(mistake),
    }
    told
}

/// A reply, as a server sends it, to any question that is asked.
pub fn reply(bytes: &[u8]) {
    let Ok(value) = redis::parse_redis_value(bytes) else { return };
    let token = Token(7);
    let (ttl, claim) = (Duration::from_secs(10), Duration::from_secs(3));
    let enter = |kind| Op::Enter { token, kind, ttl, claim, mode: EnterMode::Wait, fences: 1 };
    let ops = [
        Op::Set { token, ttl },
        enter(Kind::Exclusive),
        enter(Kind::Shared),
        Op::Leave { token, hold: None, since: super::super::ServerTime(0) },
        Op::Renew { token, kind: Kind::Exclusive, ttl },
    ];
    for op in &ops {
        drop(reply::of_script(CLIENT, op, &value));
    }
    drop(reply::of_set(CLIENT, token, &value));
    let batch: Vec<(Arc<str>, Op)> = ops.into_iter().map(|op| (Arc::from("k"), op)).collect();
    if let Ok(replies) = reply::of_enter_all(CLIENT, &batch, &value) {
        assert!(replies.len() <= batch.len());
    }
    drop(reply::of_force(&value));
    reply::of_time(&value);
    if let Value::Array(values) = &value {
        drop(reply::of_inspect(values));
    }
    if let Value::ServerError(error) = &value {
        errors::is_wrong_server(error);
        drop(errors::replied(error.clone()));
    }
}

/// What a node of a cluster tells: the replies to `CLUSTER SLOTS` and `CLUSTER INFO`, and redirections.
pub fn cluster(bytes: &[u8], info: &str) {
    let asked = Address::Tcp { host: "127.0.0.1".to_owned(), port: 6379 };
    cluster::fuzz(&asked, redis::parse_redis_value(bytes).ok(), info);
}

/// `INFO`, `CLIENT INFO`, `ROLE`.
pub fn info(text: &str) {
    for name in ["run_id", "redis_version", "maxmemory", "maxmemory_policy", "uptime_in_seconds"] {
        greet::field(Some(text), name);
    }
    greet::identify(text);
}

/// A message on the push channel.
pub fn push(text: &str) {
    let wire = Wire::new(Names::new("p:".to_owned()), CLIENT.to_owned(), &Tuning::default());
    if let Some((push, _)) = push::parse(&wire, text) {
        let (super::super::Push::Grant { key, .. } | super::super::Push::Gap { key, .. }) = push;
        assert!(text.ends_with(&*key), "a push for another key");
    }
}
