//! How a lock is released, and to whom it goes then.

use std::sync::Arc;
use std::time::Duration;

use super::{TTL, busy, enter, fence, fenced, leave, renew, set};

use crate::backend::redis::RedisConfig;
use crate::backend::redis::test_server::{LONG, Rig, Seen, TestServer, block_on, wait_until};
use crate::backend::{
    AcquireMode, AcquireReply, Backend, Push, ReleaseReply, RenewReply, ServerTime, Token, Tuning, op,
};

/// Its releases never leave a key free for plain pollers.
fn without_gaps(server: &TestServer, client: &str) -> Rig {
    let rig = Rig::start(RedisConfig {
        tuning: Tuning { poll_gap: Duration::ZERO, ..Tuning::default() },
        ..RedisConfig::new(&server.url(), client).unwrap()
    });
    rig.wait_until_up();
    rig
}

#[test]
fn the_release_grants_to_the_first_in_the_queue_and_pushes() {
    let server = TestServer::start(&[]);
    // A gap may be due between any two releases: each interval of the clock has one.
    let (a, b, c) = (Rig::up(&server, "a"), without_gaps(&server, "b"), Rig::up(&server, "c"));
    let held = fence(a.send("a key", fenced(1, AcquireMode::Try, 1))).unwrap();
    busy(b.send("a key", fenced(7, AcquireMode::Wait, 2)));
    busy(c.send("a key", enter(8, AcquireMode::Wait)));
    assert_eq!(a.send("a key", leave(1)).unwrap(), ReleaseReply::Released { gap: false });
    let handoffs_began = match b.wait_for_push() {
        Push::Grant { key, token, server_time, handoffs_began, fence } => {
            assert_eq!(
                (&*key, token, handoffs_began),
                ("a key", Token(7), server_time),
                "the run begins with this grant"
            );
            assert!(fence.unwrap() > held);
            handoffs_began
        }
        other @ (Push::Gap { .. } | Push::Wanted { .. }) => panic!("{other:?}"),
    };
    let pttl: i64 = server.run_words(&["PTTL", "a key"]);
    assert!((1..=3_000).contains(&pttl), "a grant lasts for its claim, not for its ttl: {pttl}");
    // A run of hand-offs keeps its beginning.
    b.send("a key", op::Release { handoffs_began: Some(handoffs_began), ..leave(7) }).unwrap();
    assert!(matches!(
        c.wait_for_push(),
        Push::Grant { token: Token(8), handoffs_began: kept, fence: None, .. } if kept == handoffs_began
    ));
    c.send("a key", leave(8)).unwrap();
    assert_eq!(server.run::<Vec<String>>("KEYS *"), ["dl1:f"], "nothing but the counter is left");
}

/// The server has seen the end of a client's connections.
fn until_nobody_listens(server: &TestServer, client: &str) {
    let channel = format!("PUBSUB CHANNELS dl1:c:{client}");
    wait_until("the server has seen it go", LONG, || server.run::<Vec<String>>(&channel).is_empty());
}

#[test]
fn the_dead_and_those_who_do_not_listen_are_skipped() {
    let server = TestServer::start(&[]);
    let (a, d) = (Rig::up(&server, "a"), Rig::up(&server, "d"));
    a.send("k", set(1)).unwrap();
    {
        let gone = Rig::up(&server, "gone");
        busy(gone.send("k", enter(1, AcquireMode::Wait)));
    }
    until_nobody_listens(&server, "gone");
    busy(d.send("k", enter(2, AcquireMode::Wait)));
    busy(d.send("k", enter(3, AcquireMode::Wait)));
    // The entry of 2 has expired. The entry of `gone` has not, but its channel has no subscriber.
    server.run_words::<()>(&["HSET", "dl1:e:k", "dl1:d:2", "1 3000 0 w"]);
    assert_eq!(a.send("k", leave(1)).unwrap(), ReleaseReply::Released { gap: false });
    assert!(matches!(d.wait_for_push(), Push::Grant { token: Token(3), .. }));
    assert_eq!(server.run::<i64>("EXISTS dl1:q:k dl1:e:k"), 0);
}

#[test]
fn dead_entries_in_front_do_not_keep_a_waiter_from_being_the_front() {
    let server = TestServer::start(&[]);
    let (a, b) = (Rig::up(&server, "a"), Rig::up(&server, "b"));
    a.send("k", set(1)).unwrap();
    busy(b.send("k", enter(1, AcquireMode::Wait)));
    server.run_words::<()>(&["HSET", "dl1:e:k", "dl1:b:1", "1 3000 0 w"]);
    assert!(busy(b.send("k", enter(2, AcquireMode::Wait))).2);
    assert_eq!(server.run::<Vec<String>>("LRANGE dl1:q:k 0 -1"), ["dl1:b:2"]);
}

#[test]
fn a_queue_of_the_dead_leaves_the_lock_free() {
    let server = TestServer::start(&[]);
    let a = Rig::up(&server, "a");
    a.send("k", set(1)).unwrap();
    {
        let gone = Rig::up(&server, "gone");
        busy(gone.send("k", enter(1, AcquireMode::Wait)));
    }
    until_nobody_listens(&server, "gone");
    assert_eq!(a.send("k", leave(1)).unwrap(), ReleaseReply::Released { gap: false });
    assert_eq!(server.keys().len(), 0);
}

#[test]
fn who_polls_is_granted_without_a_push_and_gets_its_fence_when_it_asks() {
    let server = TestServer::start(&[]);
    let (a, b) = (Rig::up(&server, "a"), Rig::up(&server, "b"));
    let held = fence(a.send("k", fenced(1, AcquireMode::Try, 1))).unwrap();
    busy(b.send("k", fenced(2, AcquireMode::Poll, 1)));
    a.send("k", leave(1)).unwrap();
    assert_eq!(server.run::<String>("GET k"), "dl1:b:2");
    match b.send("k", fenced(2, AcquireMode::PollAgain, 1)) {
        Ok(AcquireReply::AlreadyHeld { fence: Some(fence), .. }) => assert!(fence > held),
        other => panic!("{other:?}"),
    }
    assert!(server.run::<i64>("PTTL k") > 9_000, "the claim became a lease");
    assert!(!b.seen().iter().any(|seen| matches!(seen, Seen::Push(_))));
}

#[test]
fn a_long_run_of_hand_offs_makes_a_gap_and_keeps_the_place() {
    let server = TestServer::start(&[]);
    let (a, b) = (Rig::up(&server, "a"), Rig::up(&server, "b"));
    a.send("k", set(1)).unwrap();
    busy(b.send("k", enter(2, AcquireMode::Wait)));
    let long_ago = op::Release { handoffs_began: Some(ServerTime(1)), ..leave(1) };
    assert_eq!(a.send("k", long_ago).unwrap(), ReleaseReply::Released { gap: true });
    assert_eq!(b.wait_for_push(), Push::Gap { key: Arc::from("k"), token: Token(2) });
    assert_eq!(server.run::<i64>("EXISTS k"), 0);
    assert_eq!(server.run::<Vec<String>>("LRANGE dl1:q:k 0 -1"), ["dl1:b:2"]);
    // A client that polls acquires the lock. b is still the front of the queue.
    server.run::<()>("SET k poller NX PX 10000");
    assert!(busy(b.send("k", enter(2, AcquireMode::WaitAgain))).2);
}

#[test]
fn without_gaps_in_the_tuning_there_are_none() {
    let server = TestServer::start(&[]);
    let (a, b) = (without_gaps(&server, "a"), Rig::up(&server, "b"));
    a.send("k", set(1)).unwrap();
    busy(b.send("k", enter(2, AcquireMode::Wait)));
    let long_ago = op::Release { handoffs_began: Some(ServerTime(1)), ..leave(1) };
    assert_eq!(a.send("k", long_ago).unwrap(), ReleaseReply::Released { gap: false });
}

#[test]
fn a_hold_keeps_the_key_under_another_value() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    rig.send("k", set(1)).unwrap();
    let hold =
        op::Release { keep_taken_for: Some(Duration::from_secs(5)), ends: op::Ends::Other, ..leave(1) };
    assert_eq!(rig.send("k", hold).unwrap(), ReleaseReply::Released { gap: false });
    assert_eq!(server.run::<String>("GET k"), "dl1:hold");
    assert!((4_000..=5_000).contains(&server.run::<i64>("PTTL k")));
    // Late commands of the old token move nothing.
    assert_eq!(rig.send("k", hold).unwrap(), ReleaseReply::NotHeld);
    assert_eq!(rig.send("k", renew(1, TTL)).unwrap(), RenewReply::NotHeld);
    assert_eq!(busy(rig.send("k", enter(2, AcquireMode::Try))).0, "dl1:hold");
}

#[test]
fn leaving_the_queue_is_cancelled_and_leaving_nothing_is_not_yours() {
    let server = TestServer::start(&[]);
    let (a, b) = (Rig::up(&server, "a"), Rig::up(&server, "b"));
    a.send("k", set(1)).unwrap();
    busy(b.send("k", enter(2, AcquireMode::Wait)));
    assert_eq!(b.send("k", leave(2)).unwrap(), ReleaseReply::Cancelled);
    assert_eq!(b.send("k", leave(2)).unwrap(), ReleaseReply::NotHeld);
    assert_eq!(server.run::<i64>("EXISTS dl1:q:k dl1:e:k"), 0);
    assert_eq!(server.run::<String>("GET k"), "dl1:a:1", "the holder is not touched");
}

#[test]
fn a_direct_acquire_of_a_queued_token_takes_its_entry_away() {
    let server = TestServer::start(&[]);
    let (a, b) = (Rig::up(&server, "a"), Rig::up(&server, "b"));
    a.send("k", set(1)).unwrap();
    busy(b.send("k", enter(2, AcquireMode::Wait)));
    server.run::<()>("DEL k");
    assert!(matches!(b.send("k", enter(2, AcquireMode::WaitAgain)), Ok(AcquireReply::Acquired { .. })));
    assert_eq!(server.run::<i64>("EXISTS dl1:q:k dl1:e:k"), 0);
}

#[test]
fn force_release_takes_the_lock_from_anybody_and_serves_the_queue() {
    let server = TestServer::start(&[]);
    let (a, b) = (Rig::up(&server, "a"), Rig::up(&server, "b"));
    let key = Arc::from("k");
    assert!(!block_on(a.backend.force_release(&key)).unwrap());
    a.send("k", set(1)).unwrap();
    busy(b.send("k", enter(2, AcquireMode::Wait)));
    assert!(block_on(b.backend.force_release(&key)).unwrap());
    assert!(matches!(b.wait_for_push(), Push::Grant { token: Token(2), .. }));
    assert_eq!(a.send("k", leave(1)).unwrap(), ReleaseReply::NotHeld);
    server.run::<()>("SET k somebody");
    assert!(block_on(b.backend.force_release(&key)).unwrap());
    assert_eq!(server.run::<i64>("EXISTS k"), 0);
}

#[test]
fn somebody_elses_value_in_the_place_of_the_queue_does_not_keep_a_lock() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    server.run::<()>("SET dl1:q:k theirs");
    rig.send("k", set(1)).unwrap();
    assert_eq!(rig.send("k", leave(1)).unwrap(), ReleaseReply::Released { gap: false });
    assert_eq!(server.run::<i64>("EXISTS k"), 0);
    assert_eq!(server.run::<String>("GET dl1:q:k"), "theirs");
}
