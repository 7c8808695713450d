//! The contract, held against a real server.

mod acquiring;
mod links;
mod logins;
mod pushes;
mod refusals;
mod releasing;
mod sending;

use std::time::Duration;

use crate::backend::redis::test_server::TestServer;
use crate::backend::{AcquireMode, Failure, Kind, Op, OpResult, Remaining, Reply, ServerTime, Token};

const TTL: Duration = Duration::from_secs(10);

const CLAIM: Duration = Duration::from_secs(3);

fn set(token: u64) -> Op {
    Op::TryAcquire { token: Token(token), ttl: TTL }
}

fn enter(token: u64, mode: AcquireMode) -> Op {
    fenced(token, mode, 0)
}

fn fenced(token: u64, mode: AcquireMode, fences: u32) -> Op {
    Op::Acquire { token: Token(token), kind: Kind::Exclusive, ttl: TTL, claim: CLAIM, mode, fences }
}

fn leave(token: u64) -> Op {
    Op::Release { token: Token(token), keep_taken_for: None, handoffs_began: ServerTime(0) }
}

fn renew(token: u64, ttl: Duration) -> Op {
    Op::Renew { token: Token(token), kind: Kind::Exclusive, ttl }
}

fn fence(result: OpResult) -> Option<u64> {
    match result {
        Ok(Reply::Acquired { fence, .. } | Reply::AlreadyHeld { fence, .. }) => fence,
        other => panic!("not acquired: {other:?}"),
    }
}

fn busy(result: OpResult) -> (String, Remaining, bool) {
    match result {
        Ok(Reply::Busy { holder, remaining, front, .. }) => (holder.to_string(), remaining, front),
        other => panic!("not busy: {other:?}"),
    }
}

fn failure(result: OpResult) -> Failure {
    match result {
        Err(error) => error.kind,
        Ok(reply) => panic!("no failure: {reply:?}"),
    }
}

fn with_user(server: &TestServer, name: &str, rules: &str) -> String {
    let mut words = vec!["ACL", "SETUSER", name, "on", ">pw"];
    words.extend(rules.split_whitespace());
    server.run_words::<()>(&words);
    format!("redis://{name}:pw@127.0.0.1:{}/", server.port)
}
