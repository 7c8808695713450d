//! The contract, held against a real server.

mod acquiring;
mod links;
mod logins;
mod pushes;
mod refusals;
mod releasing;
mod releasing_alone;
mod sending;

use std::time::Duration;

use crate::backend::redis::test_server::TestServer;
use crate::backend::{AcquireMode, AcquireReply, Failure, LockKind, OpResult, Remaining, Token, op};

const TTL: Duration = Duration::from_secs(10);

const CLAIM: Duration = Duration::from_secs(3);

fn set(token: u64) -> op::TryAcquire {
    op::TryAcquire { token: Token(token), ttl: TTL }
}

fn enter(token: u64, mode: AcquireMode) -> op::Acquire {
    fenced(token, mode, 0)
}

fn fenced(token: u64, mode: AcquireMode, fences: u32) -> op::Acquire {
    op::Acquire { token: Token(token), kind: LockKind::Exclusive, ttl: TTL, claim: CLAIM, mode, fences }
}

fn leave(token: u64) -> op::Release {
    op::Release::new(Token(token), op::Ends::ExclusiveLease)
}

fn renew(token: u64, ttl: Duration) -> op::Renew {
    op::Renew { token: Token(token), kind: LockKind::Exclusive, ttl, last: false }
}

fn fence(result: OpResult<AcquireReply>) -> Option<u64> {
    match result {
        Ok(AcquireReply::Acquired { fence, .. } | AcquireReply::AlreadyHeld { fence, .. }) => fence,
        other => panic!("not acquired: {other:?}"),
    }
}

fn busy(result: OpResult<AcquireReply>) -> (String, Remaining, bool) {
    match result {
        Ok(AcquireReply::Busy { holder, remaining, front, .. }) => {
            (holder.text.to_string(), remaining, front)
        }
        other => panic!("not busy: {other:?}"),
    }
}

fn failure<T: std::fmt::Debug>(result: OpResult<T>) -> Failure {
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
