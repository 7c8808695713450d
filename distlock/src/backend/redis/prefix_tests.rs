//! Managers that spell one key with different prefixes: no prefix and `shop:k`, or `shop:` and `k`.

use std::sync::Arc;
use std::time::Duration;

use super::RedisConfig;
use super::test_server::{Rig, TestServer, block_on};
use crate::backend::{
    AcquireMode, AcquireReply, Backend, LockKind, OpResult, ReleaseReply, RenewReply, Token, op,
};

const TTL: Duration = Duration::from_secs(10);
const KINDS: [LockKind; 2] = [LockKind::Shared, LockKind::Limited { max_holders: 1 }];

/// A manager, and its name for the key.
struct Speller {
    rig: Rig,
    key: &'static str,
}

impl Speller {
    fn start(server: &TestServer, client: &str, prefix: &str, key: &'static str) -> Speller {
        let config =
            RedisConfig { prefix: prefix.to_owned(), ..RedisConfig::new(&server.url(), client).unwrap() };
        let rig = Rig::start(config);
        rig.wait_until_up();
        Speller { rig, key }
    }

    fn pair(server: &TestServer) -> [Speller; 2] {
        [Speller::start(server, "a", "", "shop:k"), Speller::start(server, "b", "shop:", "k")]
    }

    fn enter(&self, token: u64, kind: LockKind, mode: AcquireMode) -> OpResult<AcquireReply> {
        let claim = Duration::from_secs(3);
        self.rig.send(self.key, op::Acquire { token: Token(token), kind, ttl: TTL, claim, mode, fences: 0 })
    }

    fn leave(&self, token: u64) -> ReleaseReply {
        let op = op::Release::new(Token(token), op::Ends::ExclusiveLease);
        self.rig.send(self.key, op).unwrap()
    }

    fn renew(&self, token: u64, kind: LockKind) -> RenewReply {
        self.rig.send(self.key, op::Renew { token: Token(token), kind, ttl: TTL, last: false }).unwrap()
    }
}

fn fresh(result: OpResult<AcquireReply>) {
    assert!(matches!(result, Ok(AcquireReply::Acquired { .. })), "{result:?}");
}

#[test]
fn shared_and_limited_locks_of_the_other_spelling_are_of_another_kind_in_both_directions() {
    let server = TestServer::start(&[]);
    let [a, b] = Speller::pair(&server);
    for kind in KINDS {
        for (first, second) in [(&a, &b), (&b, &a)] {
            fresh(first.enter(1, kind, AcquireMode::Try));
            for mode in [AcquireMode::Try, AcquireMode::Wait] {
                match second.enter(2, kind, mode) {
                    Ok(AcquireReply::WrongKind { found }) => {
                        assert!(found.contains("another prefix"), "{found}")
                    }
                    other => panic!("{kind}: {other:?}"),
                }
            }
            assert!(matches!(first.leave(1), ReleaseReply::Released { .. }));
            fresh(second.enter(3, kind, AcquireMode::Try));
            assert!(matches!(second.leave(3), ReleaseReply::Released { .. }));
            assert_eq!(server.keys().len(), 0);
        }
    }
}

#[test]
fn a_waiter_that_leaves_the_queue_of_the_other_spelling_ends_no_lease() {
    let server = TestServer::start(&[]);
    let [a, b] = Speller::pair(&server);
    for kind in KINDS {
        fresh(a.enter(1, kind, AcquireMode::Try));
        match kind {
            // A writer may wait for readers with any prefix.
            LockKind::Shared => {
                assert!(matches!(
                    b.enter(2, LockKind::Exclusive, AcquireMode::Wait),
                    Ok(AcquireReply::Busy { .. })
                ));
                assert_eq!(b.leave(2), ReleaseReply::Cancelled);
            }
            _ => assert_eq!(b.leave(2), ReleaseReply::NotHeld),
        }
        assert_eq!(server.run::<i64>("EXISTS shop:k"), 1, "{kind}");
        assert!(matches!(a.renew(1, kind), RenewReply::Renewed { .. }));
        assert!(matches!(a.leave(1), ReleaseReply::Released { .. }));
    }
}

#[test]
fn what_is_left_of_an_earlier_lease_does_not_come_back_with_a_marker_of_the_other_spelling() {
    let server = TestServer::start(&[]);
    let [a, b] = Speller::pair(&server);
    for kind in KINDS {
        fresh(b.enter(1, kind, AcquireMode::Try));
        // As if it had been acquired some time before.
        for name in ["shop:k", "shop:dl1:m:k"] {
            server.run::<i64>(&format!("PEXPIRE {name} 5000"));
        }
        assert!(block_on(a.rig.backend.force_release(&Arc::from(a.key))).unwrap());
        fresh(a.enter(2, kind, AcquireMode::Try));
        assert_eq!(b.renew(1, kind), RenewReply::NotHeld, "{kind}");
        assert!(matches!(b.enter(3, kind, AcquireMode::Try), Ok(AcquireReply::WrongKind { .. })), "{kind}");
        assert_eq!(b.leave(1), ReleaseReply::NotHeld, "{kind}");
        assert!(matches!(a.renew(2, kind), RenewReply::Renewed { .. }), "{kind}");
        assert!(matches!(a.leave(2), ReleaseReply::Released { .. }), "{kind}");
        server.run::<()>("FLUSHALL");
    }
}

/// The set of holders is there for half a second longer than its marker.
#[test]
fn the_set_of_an_expired_lease_does_not_belong_to_the_next_marker() {
    let server = TestServer::start(&[]);
    let [a, b] = Speller::pair(&server);
    for kind in KINDS {
        // The lease of `dl1:b:1` is over, and its marker is gone.
        server.run::<i64>("ZADD shop:dl1:m:k 1000000 dl1:b:1");
        fresh(a.enter(2, kind, AcquireMode::Try));
        // As if the lease were short, so that the marker expires at about the same time.
        let left: i64 = server.run("PTTL shop:k");
        server.run::<i64>(&format!("PEXPIRE shop:dl1:m:k {left}"));
        assert!(matches!(b.enter(3, kind, AcquireMode::Try), Ok(AcquireReply::WrongKind { .. })), "{kind}");
        assert_eq!(b.renew(1, kind), RenewReply::NotHeld, "{kind}");
        assert_eq!(b.leave(1), ReleaseReply::NotHeld, "{kind}");
        assert!(matches!(a.renew(2, kind), RenewReply::Renewed { .. }), "{kind}");
        assert!(matches!(a.leave(2), ReleaseReply::Released { .. }), "{kind}");
        server.run::<()>("FLUSHALL");
    }
}

#[test]
fn exclusive_locks_of_both_spellings_exclude_each_other() {
    let server = TestServer::start(&[]);
    let [a, b] = Speller::pair(&server);
    fresh(a.enter(1, LockKind::Exclusive, AcquireMode::Try));
    for kind in [LockKind::Exclusive, LockKind::Shared] {
        assert!(matches!(b.enter(2, kind, AcquireMode::Try), Ok(AcquireReply::Busy { .. })));
    }
    assert!(matches!(a.leave(1), ReleaseReply::Released { .. }));
    fresh(b.enter(3, LockKind::Exclusive, AcquireMode::Try));
}

#[test]
fn locks_that_the_first_release_wrote_are_shared_with_it() {
    let server = TestServer::start(&[]);
    let b = Speller::start(&server, "b", "shop:", "k");
    let ends: i64 = server.run::<Vec<i64>>("TIME")[0] + 10;
    for (kind, marker) in [(LockKind::Shared, "dl1:s"), (LockKind::Limited { max_holders: 2 }, "dl1:p:2")] {
        server.run::<()>(&format!("SET shop:k {marker} PXAT {ends}000"));
        server.run::<i64>(&format!("ZADD shop:dl1:m:k {ends}000000 dl1:old:1"));
        server.run::<i64>(&format!("PEXPIREAT shop:dl1:m:k {ends}000"));
        fresh(b.enter(1, kind, AcquireMode::Try));
        assert_eq!(server.run::<String>("GET shop:k"), marker);
        assert!(matches!(b.leave(1), ReleaseReply::Released { .. }));
        assert_eq!(server.run::<Vec<String>>("ZRANGE shop:dl1:m:k 0 -1"), ["dl1:old:1"]);
        server.run::<()>("FLUSHALL");
    }
}
