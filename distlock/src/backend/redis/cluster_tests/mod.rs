//! The contract in a cluster of real processes.

mod connecting;
mod cost;
mod keys;
mod kinds;
mod losses;
mod moving;
mod slot_pushes;

use std::thread;
use std::time::{Duration, Instant};

use crate::backend::redis::ClusterBackend;
use crate::backend::redis::test_operations::SendTo;
use crate::backend::redis::test_server::{LONG, Rig, Seen, TestServer};
use crate::backend::{AcquireMode, Failure, LockKind, Push, PushHint, Token, op};

/// Longer than any fail-over takes here.
const TTL: Duration = Duration::from_secs(60);

fn set(token: u64) -> op::TryAcquire {
    op::TryAcquire { token: Token(token), ttl: TTL }
}

fn enter(token: u64, mode: AcquireMode, fences: u32) -> op::Acquire {
    op::Acquire {
        token: Token(token),
        kind: LockKind::Exclusive,
        ttl: TTL,
        claim: Duration::from_secs(3),
        mode,
        fences,
    }
}

fn leave(token: u64) -> op::Release {
    op::Release::new(Token(token), op::Ends::ExclusiveLease)
}

fn renew(token: u64) -> op::Renew {
    op::Renew { token: Token(token), kind: LockKind::Exclusive, ttl: TTL, last: false }
}

fn enter_as(kind: LockKind, token: u64) -> op::Acquire {
    op::Acquire { kind, ..enter(token, AcquireMode::Wait, 0) }
}

fn renew_as(kind: LockKind, token: u64) -> op::Renew {
    op::Renew { token: Token(token), kind, ttl: TTL, last: false }
}

/// Repeats the operation until there is a reply.
fn persist<O: SendTo<ClusterBackend> + Copy>(
    rig: &Rig<ClusterBackend>,
    key: &str,
    op: &O,
) -> (O::Reply, Duration) {
    let start = Instant::now();
    loop {
        match rig.send(key, *op) {
            Ok(reply) => return (reply, start.elapsed()),
            Err(error) => {
                assert_ne!(error.kind, Failure::Refused, "{error}");
                assert!(start.elapsed() < LONG, "{error}");
            }
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// After readers, other pushes arrive before the grant.
fn granted(rig: &Rig<ClusterBackend>, token: u64) {
    let granted = rig.wait_for("grant", |seen| match seen {
        Seen::Push(Push::Grant { token, .. }) | Seen::Hint(PushHint::Unproven { token, .. }) => Some(*token),
        Seen::Push(Push::Gap { .. } | Push::Wanted { .. }) | Seen::Link(_) | Seen::Hint(_) => None,
    });
    assert_eq!(granted, Token(token));
}

/// How many scripts the servers have executed (`calls`) or redirected (`rejected_calls`).
fn scripts(servers: &[TestServer], count: &str) -> u64 {
    servers.iter().map(|server| server.scripts(count)).sum()
}
