//! How a lock is acquired, renewed and looked at.

use std::sync::Arc;
use std::time::Duration;

use super::{TTL, busy, enter, fence, fenced, leave, renew, set};

use crate::backend::redis::RedisConfig;
use crate::backend::redis::test_server::{Rig, TestServer, block_on};
use crate::backend::{
    AcquireMode, AcquireReply, Backend, Failure, LockKind, Push, ReleaseReply, Remaining, RenewReply, op,
};

#[test]
fn a_free_lock_is_acquired_and_is_the_plain_key_with_the_token() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    assert!(matches!(
        rig.send("k", enter(1, AcquireMode::Wait)),
        Ok(AcquireReply::Acquired { server_time: Some(_), fence: None })
    ));
    assert_eq!(server.run::<String>("GET k"), "dl1:a:1");
    let pttl: i64 = server.run("PTTL k");
    assert!((9_000..=10_000).contains(&pttl), "{pttl}");
    assert_eq!(server.keys().len(), 1, "nothing else is left behind");
    assert_eq!(rig.send("k", leave(1)).unwrap(), ReleaseReply::Released { gap: false });
    assert_eq!(server.keys().len(), 0);
}

#[test]
fn set_is_answered_like_enter() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    server.run::<()>("CONFIG RESETSTAT");
    assert_eq!(rig.send("k", set(1)).unwrap(), AcquireReply::Acquired { server_time: None, fence: None });
    assert_eq!(rig.send("k", set(1)).unwrap(), AcquireReply::AlreadyHeld { server_time: None, fence: None });
    assert_eq!(busy(rig.send("k", set(2))), ("dl1:a:1".to_owned(), Remaining::Unknown, false));
    server.run::<()>("RPUSH l x");
    assert!(matches!(rig.send("l", set(3)), Ok(AcquireReply::WrongKind { .. })));
    let stats: String = server.run("INFO commandstats");
    assert!(!stats.contains("cmdstat_eval"), "{stats}");
}

#[test]
fn already_held_extends_and_never_shortens() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    rig.send("k", enter(1, AcquireMode::Try)).unwrap();
    server.run::<()>("PEXPIRE k 60000");
    assert!(matches!(rig.send("k", enter(1, AcquireMode::Try)), Ok(AcquireReply::AlreadyHeld { .. })));
    assert!(server.run::<i64>("PTTL k") > 50_000);
    server.run::<()>("PEXPIRE k 500");
    assert!(matches!(rig.send("k", enter(1, AcquireMode::Try)), Ok(AcquireReply::AlreadyHeld { .. })));
    assert!(server.run::<i64>("PTTL k") > 9_000);
}

#[test]
fn renew_extends_and_never_shortens_or_creates() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    assert_eq!(rig.send("k", renew(1, TTL)).unwrap(), RenewReply::NotHeld);
    assert_eq!(server.run::<i64>("EXISTS k"), 0);
    rig.send("k", set(1)).unwrap();
    assert!(matches!(rig.send("k", renew(1, 6 * TTL)), Ok(RenewReply::Renewed { .. })));
    assert!(matches!(rig.send("k", renew(1, TTL)), Ok(RenewReply::Renewed { .. })));
    assert!(server.run::<i64>("PTTL k") > 50_000);
    assert_eq!(rig.send("k", renew(2, TTL)).unwrap(), RenewReply::NotHeld);
}

#[test]
fn a_try_does_not_queue_and_a_wait_does() {
    let server = TestServer::start(&[]);
    let (a, b, c) = (Rig::up(&server, "a"), Rig::up(&server, "b"), Rig::up(&server, "c"));
    a.send("k", set(1)).unwrap();
    let (holder, remaining, front) = busy(b.send("k", enter(1, AcquireMode::Try)));
    assert_eq!((holder.as_str(), front), ("dl1:a:1", false));
    assert!(matches!(remaining, Remaining::For(left) if left <= TTL));
    assert_eq!(server.run::<i64>("EXISTS dl1:q:k dl1:e:k"), 0);
    assert!(busy(b.send("k", enter(2, AcquireMode::Wait))).2, "first in the queue");
    assert!(!busy(c.send("k", enter(1, AcquireMode::Wait))).2, "second");
    // A heartbeat keeps the place.
    assert!(busy(b.send("k", enter(2, AcquireMode::WaitAgain))).2);
    assert_eq!(server.run::<Vec<String>>("LRANGE dl1:q:k 0 -1"), ["dl1:b:2", "dl1:c:1"]);
    let pttl: i64 = server.run("PTTL dl1:q:k");
    assert!((19_000..=20_000).contains(&pttl), "twice the keep time: {pttl}");
}

#[test]
fn a_lock_without_expiry_is_reported_as_such() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    server.run::<()>("SET k somebody");
    assert_eq!(
        busy(rig.send("k", enter(1, AcquireMode::Try))),
        ("somebody".to_owned(), Remaining::Forever, false)
    );
}

#[test]
fn a_key_of_another_type_is_the_wrong_kind_and_is_left_alone() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    server.run::<()>("RPUSH k x");
    assert!(matches!(rig.send("k", enter(1, AcquireMode::Wait)), Ok(AcquireReply::WrongKind { .. })));
    assert_eq!(rig.send("k", leave(1)).unwrap(), ReleaseReply::NotHeld);
    assert_eq!(rig.send("k", renew(1, TTL)).unwrap(), RenewReply::NotHeld);
    let key = Arc::from("k");
    assert_eq!(block_on(rig.backend.inspect(&key)).unwrap_err().kind, Failure::Refused);
    let error = block_on(rig.backend.force_release(&key)).unwrap_err();
    assert_eq!(error.kind, Failure::Refused);
    assert!(error.to_string().contains("not a lock"), "{error}");
    assert_eq!(server.run::<String>("TYPE k"), "list");
}

/// The marker of a lock may outlive its last lease by less than a millisecond, and by more if the clock is set back
/// within the script. A writer waits, so that no reader may join.
#[test]
fn a_marker_whose_last_lease_has_ended_is_a_free_lock() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    let one = LockKind::Limited { max_holders: 1 };
    let kinds = [(LockKind::Shared, LockKind::Exclusive), (one, one)];
    // In some of the rounds, the marker expires before the next request.
    for (round, (kind, waiting)) in kinds.into_iter().cycle().take(60).enumerate() {
        let left = if round < 2 { 600_000 } else { 1 };
        let enter = |token, kind, mode| op::Acquire { kind, ..enter(token, mode) };
        rig.send("k", enter(1, kind, AcquireMode::Try)).unwrap();
        busy(rig.send("k", enter(2, waiting, AcquireMode::Wait)));
        let end = format!(
            "local time = redis.call('TIME') \
             local now = time[1] * 1000000 + time[2] \
             local ends = math.ceil(now / 1000) + {left} \
             redis.call('ZADD', 'dl1:m:k', string.format('%.0f', now - 1), 'dl1:a:1') \
             redis.call('PEXPIREAT', 'dl1:m:k', string.format('%.0f', ends + 500)) \
             redis.call('PEXPIREAT', 'k', string.format('%.0f', ends))"
        );
        server.run_words::<()>(&["EVAL", &end, "0"]);
        for token in [3, 4] {
            let reply = rig.send("k", enter(token, kind, AcquireMode::Try)).unwrap();
            assert!(!matches!(reply, AcquireReply::WrongKind { .. }), "{kind}, {token}: {reply:?}");
            assert!(token != 3 || reply.is_acquired(), "{kind}: {reply:?}");
        }
        server.run::<()>("FLUSHALL");
    }
}

/// Redis may delete the expired set before the expired marker. If its clock is set back in between, the marker is alive
/// without its set, which is a lock of another program.
#[test]
fn the_set_of_holders_outlives_its_marker() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    for kind in [LockKind::Shared, LockKind::Limited { max_holders: 2 }] {
        for token in [1, 2] {
            rig.send("k", op::Acquire { kind, ..enter(token, AcquireMode::Try) }).unwrap();
            let [marker, set] =
                ["k", "dl1:m:k"].map(|name| server.run::<i64>(&format!("PEXPIRETIME {name}")));
            assert_eq!(set - marker, 500, "{kind}");
        }
        server.run::<()>("FLUSHALL");
    }
}

#[test]
fn fencing_tokens_rise_even_when_the_clock_steps_back() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    let first = fence(rig.send("k", fenced(1, AcquireMode::Try, 3))).unwrap();
    rig.send("k", leave(1)).unwrap();
    let second = fence(rig.send("k", fenced(2, AcquireMode::Try, 1))).unwrap();
    assert!(second > first + 2, "{first} {second}");
    // As if minted before the clock was set back by an hour.
    let ahead = second + 3_600_000_000;
    server.run_words::<()>(&["SET", "dl1:f", &ahead.to_string()]);
    assert_eq!(fence(rig.send("k", fenced(2, AcquireMode::Try, 5))), Some(ahead + 1));
    assert_eq!(fence(rig.send("j", fenced(3, AcquireMode::Try, 1))), Some(ahead + 6));
}

#[test]
fn inspect_tells_holder_time_and_waiters() {
    let server = TestServer::start(&[]);
    let (a, b) = (Rig::up(&server, "a"), Rig::up(&server, "b"));
    let key = Arc::from("k");
    assert_eq!(block_on(a.backend.inspect(&key)).unwrap(), None);
    a.send("k", set(1)).unwrap();
    busy(b.send("k", enter(2, AcquireMode::Wait)));
    let seen = block_on(a.backend.inspect(&key)).unwrap().unwrap();
    assert_eq!((seen.first_holder(), seen.waiters), ("dl1:a:1", 1));
    assert!(seen.remaining().unwrap() > Duration::from_secs(9));
}

#[test]
fn the_prefix_is_put_in_front_of_everything_and_taken_off_again() {
    let server = TestServer::start(&[]);
    let with_prefix = |client| {
        let rig = Rig::start(RedisConfig {
            prefix: "shop:".to_owned(),
            ..RedisConfig::new(&server.url(), client).unwrap()
        });
        rig.wait_until_up();
        rig
    };
    let (a, b) = (with_prefix("a"), with_prefix("b"));
    a.send("k", fenced(1, AcquireMode::Try, 1)).ok();
    busy(b.send("k", enter(2, AcquireMode::Wait)));
    let mut keys: Vec<String> = server.run("KEYS *");
    keys.sort();
    assert_eq!(keys, ["shop:dl1:e:k", "shop:dl1:f", "shop:dl1:q:k", "shop:k"]);
    a.send("k", leave(1)).unwrap();
    assert!(matches!(b.wait_for_push(), Push::Grant { key, .. } if &*key == "k"));
}
