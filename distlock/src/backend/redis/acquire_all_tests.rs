//! Several locks by one command, held against a real server.

use std::sync::Arc;
use std::time::Duration;

use super::test_server::{Rig, TestServer, block_on};
use crate::backend::{AcquireMode, AcquireReply, Backend, LockKind, Remaining, Token, op};

const TTL: Duration = Duration::from_secs(10);
const KEYS: [&str; 3] = ["a", "b", "c"];

fn enter(token: u64, kind: LockKind, mode: AcquireMode) -> op::Acquire {
    op::Acquire { token: Token(token), kind, ttl: TTL, claim: Duration::from_secs(3), mode, fences: 0 }
}

/// Takes the three keys with the tokens `first`, `first + 1` and `first + 2`. `None`: not tried.
fn take(rig: &Rig, first: u64, kind: LockKind) -> Vec<Option<AcquireReply>> {
    let ops = (first..).map(|token| enter(token, kind, AcquireMode::Try));
    let batch = KEYS.iter().map(|key| Arc::from(*key)).zip(ops).collect();
    let results = block_on(rig.backend.send_acquire_all(batch));
    results.into_iter().map(|result| result.unwrap().tried().cloned()).collect()
}

#[test]
fn free_locks_are_all_taken_each_with_its_own_token_and_nothing_else_is_written() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "x");
    let replies = take(&rig, 1, LockKind::Exclusive);
    assert!(
        replies
            .iter()
            .all(|reply| matches!(reply, Some(AcquireReply::Acquired { server_time: Some(_), fence: None })))
    );
    for (key, token) in KEYS.iter().zip(1..) {
        assert_eq!(server.run::<String>(&format!("GET {key}")), format!("dl1:x:{token}"));
        assert!((9_000..=10_000).contains(&server.run::<i64>(&format!("PTTL {key}"))));
    }
    assert_eq!(server.keys().len(), 3);
}

#[test]
fn the_command_ends_at_the_first_lock_that_is_not_free() {
    let server = TestServer::start(&[]);
    let (one, other) = (Rig::up(&server, "x"), Rig::up(&server, "y"));
    other.send("b", enter(9, LockKind::Exclusive, AcquireMode::Try)).unwrap();
    for kind in [LockKind::Exclusive, LockKind::Shared] {
        let replies = take(&one, 1, kind);
        let [
            Some(AcquireReply::Acquired { .. }),
            Some(AcquireReply::Busy { server_time: Some(_), holder, remaining, front }),
            None,
        ] = &replies[..]
        else {
            panic!("{kind}: {replies:?}")
        };
        assert_eq!((&*holder.text, *front), ("dl1:y:9", false));
        assert!(matches!(remaining, Remaining::For(left) if *left > Duration::from_secs(8)), "{remaining:?}");
        assert!(!server.run::<bool>("EXISTS c"));
        assert!(server.run::<Vec<String>>("KEYS dl1:[qe]*").is_empty(), "it does not queue");
        one.send("a", op::Release::new(Token(1), op::Ends::ExclusiveLease)).unwrap();
    }
    server.run::<()>("PERSIST b");
    let replies = take(&one, 1, LockKind::Exclusive);
    assert!(
        matches!(&replies[1], Some(AcquireReply::Busy { remaining: Remaining::Forever, .. })),
        "{replies:?}"
    );
}

#[test]
fn the_same_command_again_finds_its_own_locks_and_never_shortens_them() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "x");
    for kind in [LockKind::Exclusive, LockKind::Shared] {
        take(&rig, 1, kind);
        for (at, expected) in [(500, 9_000..=10_000), (60_000, 9_000..=60_000)] {
            // A shared lock's marker and its members end together.
            for name in ["a", "dl1:m:a"] {
                server.run::<i64>(&format!("PEXPIRE {name} {at}"));
            }
            let replies = take(&rig, 1, kind);
            assert!(
                replies.iter().all(|reply| matches!(
                    reply,
                    Some(AcquireReply::AlreadyHeld { server_time: Some(_), fence: None })
                )),
                "{kind}: {replies:?}"
            );
            // The value of a shared lock is a marker. Its expiry is that of its members.
            let pttl = server.run::<i64>("PTTL a");
            assert!(kind == LockKind::Shared || expected.contains(&pttl), "{kind}: {pttl}");
        }
        server.run::<()>("FLUSHALL");
    }
}

#[test]
fn a_lock_of_another_kind_and_a_key_of_another_type_end_it_with_their_own_answer() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "x");
    let ends_at_the_second = || {
        for kind in [LockKind::Exclusive, LockKind::Shared] {
            let replies = take(&rig, 1, kind);
            assert!(
                matches!(&replies[..], [Some(reply), Some(AcquireReply::WrongKind { .. }), None] if reply.is_acquired()),
                "{kind}: {replies:?}"
            );
            server.run::<()>("DEL a");
        }
    };
    rig.send("b", enter(9, LockKind::Limited { max_holders: 2 }, AcquireMode::Try)).unwrap();
    ends_at_the_second();
    server.run::<()>("DEL b dl1:m:b");
    server.run::<()>("RPUSH b x");
    ends_at_the_second();
}

#[test]
fn readers_share_the_locks_unless_a_writer_waits() {
    let server = TestServer::start(&[]);
    let (one, other) = (Rig::up(&server, "x"), Rig::up(&server, "y"));
    assert!(
        take(&one, 1, LockKind::Shared).iter().flatten().filter(|reply| reply.is_acquired()).count() == 3
    );
    assert!(
        take(&other, 1, LockKind::Shared).iter().flatten().filter(|reply| reply.is_acquired()).count() == 3
    );
    let writer = other.send("b", enter(9, LockKind::Exclusive, AcquireMode::Wait)).unwrap();
    assert!(matches!(writer, AcquireReply::Busy { front: true, .. }), "{writer:?}");
    let replies = take(&one, 11, LockKind::Shared);
    assert!(
        matches!(&replies[..], [Some(AcquireReply::Acquired { .. }), Some(AcquireReply::Busy { .. }), None]),
        "{replies:?}"
    );
}

#[test]
fn one_command_takes_so_many_and_no_more() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "x");
    let keys: Vec<Arc<str>> = (0..150).map(|number| Arc::from(format!("k{number:03}"))).collect();
    assert_eq!(rig.backend.acquires_all(&keys), 100);
    assert_eq!(rig.backend.acquires_all(&keys[..7]), 7);
}
