//! The contract, held against a real server.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::test_scripted::{Answer, Scripted};
use super::test_server::{Rig, Seen, TestServer, block_on, finish, wait_until};
use super::{RedisBackend, RedisConfig};
use crate::backend::{
    AcquireMode, Backend, Failure, Kind, LinkEvent, Op, OpResult, Push, Pushes, Remaining, Reply, ServerTime,
    Token, Tuning,
};

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

// ---- the scripts ----

#[test]
fn a_free_lock_is_acquired_and_is_the_plain_key_with_the_token() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    assert!(matches!(
        rig.send("k", enter(1, AcquireMode::Wait)),
        Ok(Reply::Acquired { server_time: Some(_), fence: None })
    ));
    assert_eq!(server.run::<String>("GET k"), "dl1:a:1");
    let pttl: i64 = server.run("PTTL k");
    assert!((9_000..=10_000).contains(&pttl), "{pttl}");
    assert_eq!(server.run::<i64>("DBSIZE"), 1, "nothing else is left behind");
    assert_eq!(rig.send("k", leave(1)).unwrap(), Reply::Released { gap: false });
    assert_eq!(server.run::<i64>("DBSIZE"), 0);
}

#[test]
fn set_is_answered_like_enter() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    server.run::<()>("CONFIG RESETSTAT");
    assert_eq!(rig.send("k", set(1)).unwrap(), Reply::Acquired { server_time: None, fence: None });
    assert_eq!(rig.send("k", set(1)).unwrap(), Reply::AlreadyHeld { server_time: None, fence: None });
    assert_eq!(busy(rig.send("k", set(2))), ("dl1:a:1".to_owned(), Remaining::Unknown, false));
    server.run::<()>("RPUSH l x");
    assert!(matches!(rig.send("l", set(3)), Ok(Reply::WrongKind { .. })));
    let stats: String = server.run("INFO commandstats");
    assert!(!stats.contains("cmdstat_eval"), "{stats}");
}

#[test]
fn already_held_extends_and_never_shortens() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    rig.send("k", enter(1, AcquireMode::Try)).unwrap();
    server.run::<()>("PEXPIRE k 60000");
    assert!(matches!(rig.send("k", enter(1, AcquireMode::Try)), Ok(Reply::AlreadyHeld { .. })));
    assert!(server.run::<i64>("PTTL k") > 50_000);
    server.run::<()>("PEXPIRE k 500");
    assert!(matches!(rig.send("k", enter(1, AcquireMode::Try)), Ok(Reply::AlreadyHeld { .. })));
    assert!(server.run::<i64>("PTTL k") > 9_000);
}

#[test]
fn renew_extends_and_never_shortens_or_creates() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    assert_eq!(rig.send("k", renew(1, TTL)).unwrap(), Reply::NotHeld);
    assert_eq!(server.run::<i64>("EXISTS k"), 0);
    rig.send("k", set(1)).unwrap();
    assert!(matches!(rig.send("k", renew(1, 6 * TTL)), Ok(Reply::Renewed { .. })));
    assert!(matches!(rig.send("k", renew(1, TTL)), Ok(Reply::Renewed { .. })));
    assert!(server.run::<i64>("PTTL k") > 50_000);
    assert_eq!(rig.send("k", renew(2, TTL)).unwrap(), Reply::NotHeld);
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
    assert!(matches!(rig.send("k", enter(1, AcquireMode::Wait)), Ok(Reply::WrongKind { .. })));
    assert_eq!(rig.send("k", leave(1)).unwrap(), Reply::NotHeld);
    assert_eq!(rig.send("k", renew(1, TTL)).unwrap(), Reply::NotHeld);
    let key = Arc::from("k");
    assert_eq!(block_on(rig.backend.inspect(&key)).unwrap_err().kind, Failure::Refused);
    let error = block_on(rig.backend.force_release(&key)).unwrap_err();
    assert_eq!(error.kind, Failure::Refused);
    assert!(error.to_string().contains("not a lock"), "{error}");
    assert_eq!(server.run::<String>("TYPE k"), "list");
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
fn the_release_grants_to_the_first_in_the_queue_and_pushes() {
    let server = TestServer::start(&[]);
    let (a, b, c) = (Rig::up(&server, "a"), Rig::up(&server, "b"), Rig::up(&server, "c"));
    let held = fence(a.send("a key", fenced(1, AcquireMode::Try, 1))).unwrap();
    busy(b.send("a key", fenced(7, AcquireMode::Wait, 2)));
    busy(c.send("a key", enter(8, AcquireMode::Wait)));
    assert_eq!(a.send("a key", leave(1)).unwrap(), Reply::Released { gap: false });
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
        other @ Push::Gap { .. } => panic!("{other:?}"),
    };
    let pttl: i64 = server.run_words(&["PTTL", "a key"]);
    assert!((2_000..=3_000).contains(&pttl), "a grant lasts for its claim: {pttl}");
    // A run of hand-offs keeps its beginning.
    b.send("a key", Op::Release { token: Token(7), keep_taken_for: None, handoffs_began }).unwrap();
    assert!(matches!(
        c.wait_for_push(),
        Push::Grant { token: Token(8), handoffs_began: kept, fence: None, .. } if kept == handoffs_began
    ));
    c.send("a key", leave(8)).unwrap();
    assert_eq!(server.run::<Vec<String>>("KEYS *"), ["dl1:f"], "nothing but the counter is left");
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
    busy(d.send("k", enter(2, AcquireMode::Wait)));
    busy(d.send("k", enter(3, AcquireMode::Wait)));
    // The entry of 2 has run out; that of `gone` has not, but nobody subscribes to its channel any more.
    server.run_words::<()>(&["HSET", "dl1:e:k", "dl1:d:2", "1 3000 0 w"]);
    assert_eq!(a.send("k", leave(1)).unwrap(), Reply::Released { gap: false });
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
    wait_until("the server has seen it go", Duration::from_secs(10), || {
        server.run::<Vec<String>>("PUBSUB CHANNELS dl1:c:gone").is_empty()
    });
    assert_eq!(a.send("k", leave(1)).unwrap(), Reply::Released { gap: false });
    assert_eq!(server.run::<i64>("DBSIZE"), 0);
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
        Ok(Reply::AlreadyHeld { fence: Some(fence), .. }) => assert!(fence > held),
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
    let long_ago = Op::Release { token: Token(1), keep_taken_for: None, handoffs_began: ServerTime(1) };
    assert_eq!(a.send("k", long_ago).unwrap(), Reply::Released { gap: true });
    assert_eq!(b.wait_for_push(), Push::Gap { key: Arc::from("k"), token: Token(2) });
    assert_eq!(server.run::<i64>("EXISTS k"), 0);
    assert_eq!(server.run::<Vec<String>>("LRANGE dl1:q:k 0 -1"), ["dl1:b:2"]);
    // A plain poller takes its chance; b is still the front.
    server.run::<()>("SET k poller NX PX 10000");
    assert!(busy(b.send("k", enter(2, AcquireMode::WaitAgain))).2);
}

#[test]
fn without_gaps_in_the_tuning_there_are_none() {
    let server = TestServer::start(&[]);
    let a = Rig::start(RedisConfig {
        tuning: Tuning { poll_gap: Duration::ZERO, ..Tuning::default() },
        ..RedisConfig::new(&server.url(), "a").unwrap()
    });
    a.wait_until_up();
    let b = Rig::up(&server, "b");
    a.send("k", set(1)).unwrap();
    busy(b.send("k", enter(2, AcquireMode::Wait)));
    let long_ago = Op::Release { token: Token(1), keep_taken_for: None, handoffs_began: ServerTime(1) };
    assert_eq!(a.send("k", long_ago).unwrap(), Reply::Released { gap: false });
}

#[test]
fn a_hold_keeps_the_key_under_another_value() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    rig.send("k", set(1)).unwrap();
    let hold = Op::Release {
        token: Token(1),
        keep_taken_for: Some(Duration::from_secs(5)),
        handoffs_began: ServerTime(0),
    };
    assert_eq!(rig.send("k", hold.clone()).unwrap(), Reply::Released { gap: false });
    assert_eq!(server.run::<String>("GET k"), "dl1:hold");
    assert!((4_000..=5_000).contains(&server.run::<i64>("PTTL k")));
    // Late commands of the old token move nothing.
    assert_eq!(rig.send("k", hold).unwrap(), Reply::NotHeld);
    assert_eq!(rig.send("k", renew(1, TTL)).unwrap(), Reply::NotHeld);
    assert_eq!(busy(rig.send("k", enter(2, AcquireMode::Try))).0, "dl1:hold");
}

#[test]
fn leaving_the_queue_is_cancelled_and_leaving_nothing_is_not_yours() {
    let server = TestServer::start(&[]);
    let (a, b) = (Rig::up(&server, "a"), Rig::up(&server, "b"));
    a.send("k", set(1)).unwrap();
    busy(b.send("k", enter(2, AcquireMode::Wait)));
    assert_eq!(b.send("k", leave(2)).unwrap(), Reply::Cancelled);
    assert_eq!(b.send("k", leave(2)).unwrap(), Reply::NotHeld);
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
    assert!(matches!(b.send("k", enter(2, AcquireMode::WaitAgain)), Ok(Reply::Acquired { .. })));
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
    assert_eq!(a.send("k", leave(1)).unwrap(), Reply::NotHeld);
    server.run::<()>("SET k somebody");
    assert!(block_on(b.backend.force_release(&key)).unwrap());
    assert_eq!(server.run::<i64>("EXISTS k"), 0);
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
    assert_eq!((&*seen.holder, seen.waiters), ("dl1:a:1", 1));
    assert!(seen.remaining.unwrap() > Duration::from_secs(9));
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

// ---- sending ----

#[test]
fn scripts_are_loaded_with_the_link_and_again_after_a_flush() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    server.run::<()>("CONFIG RESETSTAT");
    rig.send("k", enter(1, AcquireMode::Try)).unwrap();
    let stats: String = server.run("INFO commandstats");
    assert!(!stats.contains("cmdstat_eval:"), "loaded already: {stats}");
    server.run::<()>("SCRIPT FLUSH");
    assert!(matches!(rig.send("k", renew(1, TTL)), Ok(Reply::Renewed { .. })));
    assert!(matches!(rig.send("k", enter(1, AcquireMode::Try)), Ok(Reply::AlreadyHeld { .. })));
    assert_eq!(rig.send("k", leave(1)).unwrap(), Reply::Released { gap: false });
    assert!(!block_on(rig.backend.force_release(&Arc::from("k"))).unwrap());
    server.run::<()>("CONFIG RESETSTAT");
    rig.send("k", enter(2, AcquireMode::Try)).unwrap();
    assert_eq!(rig.send("k", leave(2)).unwrap(), Reply::Released { gap: false });
    let stats: String = server.run("INFO commandstats");
    assert!(!stats.contains("cmdstat_eval:"), "learned from the text: {stats}");
}

#[test]
fn a_batch_answers_every_operation_in_order_even_after_a_flush() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    server.run::<()>("SCRIPT FLUSH");
    let mut batch = Vec::new();
    for number in 0..1_200 {
        batch.push((Arc::from(format!("k{number}")), set(number)));
        batch.push((Arc::from(format!("k{number}")), renew(number, TTL)));
    }
    batch.push((Arc::from("k7"), leave(7)));
    batch.push((Arc::from("k7"), enter(5_000, AcquireMode::Try)));
    let results = block_on(rig.backend.send_batch(batch));
    assert_eq!(results.len(), 2_402);
    for pair in results[..2_400].chunks(2) {
        assert!(matches!(pair[0], Ok(Reply::Acquired { .. })), "{pair:?}");
        assert!(matches!(pair[1], Ok(Reply::Renewed { .. })), "{pair:?}");
    }
    assert_eq!(*results[2_400].as_ref().unwrap(), Reply::Released { gap: false });
    assert!(matches!(results[2_401], Ok(Reply::Acquired { .. })));
}

#[test]
fn operations_are_executed_in_the_order_of_their_first_poll() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    for number in 0..200 {
        let first = rig.begin("k", enter(number, AcquireMode::Try));
        let second = rig.begin("k", leave(number));
        assert!(matches!(first.join().unwrap(), Ok(Reply::Acquired { .. })));
        assert_eq!(second.join().unwrap().unwrap(), Reply::Released { gap: false });
    }
}

#[test]
fn an_operation_can_be_awaited_on_another_runtime() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    let sending = rig.backend.send(&Arc::from("k"), set(1));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(runtime.block_on(async { finish(sending) }).is_ok());
}

#[test]
fn the_script_takes_the_place_of_set_where_the_server_does_not_know_get() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    rig.backend.pretend_old_server();
    assert!(matches!(rig.send("k", set(1)), Ok(Reply::Acquired { server_time: Some(_), fence: None })));
    assert!(matches!(rig.send("k", set(2)), Ok(Reply::Busy { server_time: Some(_), .. })));
}

// ---- the links ----

#[test]
fn without_a_link_nothing_is_sent() {
    let backend = RedisBackend::new(RedisConfig::new("redis://127.0.0.1:1/", "a").unwrap()).unwrap();
    let key: Arc<str> = Arc::from("k");
    assert_eq!(failure(finish(backend.send(&key, set(1)))), Failure::NotSent);
    assert_eq!(failure(block_on(backend.send_batch(vec![(key, set(1))])).remove(0)), Failure::NotSent);
}

#[test]
fn a_server_that_is_down_is_reported_at_every_attempt_and_found_when_it_comes() {
    let mut server = TestServer::start(&[]);
    server.kill();
    let rig = Rig::start(RedisConfig::new(&server.url(), "a").unwrap());
    for _ in 0..3 {
        let cause = rig.wait_for_down();
        assert_eq!(cause.kind, Failure::NotSent);
        assert!(cause.to_string().contains(&format!("127.0.0.1:{}", server.port)), "{cause}");
    }
    server.start_again();
    rig.wait_until_up();
    assert!(rig.send("k", set(1)).is_ok());
}

#[test]
fn a_restarted_server_knows_nothing_of_earlier_links() {
    let mut server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    rig.send("k", set(1)).unwrap();
    server.kill();
    server.start_again();
    rig.wait_for_down();
    assert!(rig.wait_until_up().0, "the former links are dead");
    assert_eq!(rig.send("k", leave(1)).unwrap(), Reply::NotHeld);
}

#[test]
fn lazy_connects_with_the_first_operation() {
    let server = TestServer::start(&[]);
    let rig = Rig::start(RedisConfig { lazy: true, ..RedisConfig::new(&server.url(), "a").unwrap() });
    thread::sleep(Duration::from_millis(100));
    assert!(rig.seen().is_empty());
    assert_eq!(server.command_ids("a").len(), 0);
    assert_eq!(failure(rig.send("k", set(1))), Failure::NotSent);
    rig.wait_until_up();
    assert!(rig.send("k", set(1)).is_ok());
}

#[test]
fn a_killed_link_is_replaced_and_dead_for_good() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    let ids = server.command_ids("a");
    assert_eq!(ids.len(), 1);
    server.run_words::<()>(&["CLIENT", "KILL", "ID", &ids[0]]);
    assert_eq!(rig.wait_for_down().kind, Failure::Unknown);
    assert!(rig.wait_until_up().0, "the former links are dead");
    assert!(rig.send("k", set(1)).is_ok());
}

#[test]
fn operations_under_way_fail_as_unknown_when_the_link_is_killed() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    let ids = server.command_ids("a");
    // Paused writes are not answered until the pause ends.
    server.run::<()>("CLIENT PAUSE 3000 WRITE");
    let pending: Vec<_> = (0..10).map(|number| rig.begin("k", set(number))).collect();
    thread::sleep(Duration::from_millis(50));
    let start = Instant::now();
    server.run_words::<()>(&["CLIENT", "KILL", "ID", &ids[0]]);
    for pending in pending {
        assert_eq!(failure(pending.join().unwrap()), Failure::Unknown);
    }
    assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
}

#[test]
fn a_frozen_server_costs_a_second_and_its_old_link_is_killed_afterwards() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    let old = server.command_ids("a");
    server.stop();
    let start = Instant::now();
    let pending: Vec<_> = (0..10).map(|number| rig.begin("k", set(number))).collect();
    for pending in pending {
        let error = pending.join().unwrap().unwrap_err();
        assert_eq!(error.kind, Failure::Unknown);
        assert!(error.to_string().contains("did not answer"), "{error}");
    }
    assert!(start.elapsed() < Duration::from_millis(1_200), "{:?}", start.elapsed());
    rig.wait_for_down();
    assert_eq!(failure(rig.send("k", set(11))), Failure::NotSent);
    server.resume();
    let (former_links_dead, _) = rig.wait_until_up();
    assert!(former_links_dead);
    let now = server.command_ids("a");
    assert!(!now.contains(&old[0]), "{old:?} {now:?}");
}

#[test]
fn an_idle_frozen_link_is_found_too() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    thread::sleep(Duration::from_millis(600));
    server.stop();
    let start = Instant::now();
    rig.wait_for_down();
    assert!(start.elapsed() < Duration::from_secs(7), "{:?}", start.elapsed());
    server.resume();
}

#[test]
fn an_idle_link_is_left_in_peace() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    rig.send("k", set(1)).unwrap();
    thread::sleep(Duration::from_millis(600));
    server.run::<()>("CONFIG RESETSTAT");
    thread::sleep(Duration::from_millis(1_500));
    let stats: String = server.run("INFO commandstats");
    assert!(!stats.contains("cmdstat_ping"), "{stats}");
}

#[test]
fn ending_the_run_fails_what_is_under_way() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    server.stop();
    let pending = rig.begin("k", set(1));
    let backend = Arc::clone(&rig.backend);
    drop(rig);
    assert_eq!(failure(pending.join().unwrap()), Failure::Unknown);
    assert_eq!(failure(finish(backend.send(&Arc::from("k"), set(2)))), Failure::NotSent);
    server.resume();
}

#[test]
fn a_replica_is_refused_for_now_and_an_operation_that_meets_one_replaces_the_link() {
    let master = TestServer::start(&[]);
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    server.run_words::<()>(&["REPLICAOF", "127.0.0.1", &master.port.to_string()]);
    assert_eq!(failure(rig.send("k", enter(1, AcquireMode::Try))), Failure::Later);
    assert_eq!(rig.wait_for_down().kind, Failure::Later, "the link is given up");
    let cause = rig.wait_for_down();
    assert_eq!(cause.kind, Failure::Later);
    assert!(cause.to_string().contains("replica"), "{cause}");
    server.run::<()>("REPLICAOF NO ONE");
    rig.wait_until_up();
}

#[test]
fn a_replica_never_says_that_a_lock_is_not_ours() {
    let master = TestServer::start(&["--repl-diskless-sync-delay", "0"]);
    for op in [renew(1, TTL), leave(1)] {
        let server = TestServer::start(&[]);
        let rig = Rig::up(&server, "a");
        rig.send("k", set(1)).unwrap();
        server.run_words::<()>(&["REPLICAOF", "127.0.0.1", &master.port.to_string()]);
        // The master knows nothing of the lock: once its data is here, neither does the replica.
        let start = Instant::now();
        while server.run::<i64>("EXISTS k") == 1 {
            assert!(start.elapsed() < TTL / 2, "no replication");
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(failure(rig.send("k", op)), Failure::Later);
    }
}

#[test]
fn a_cluster_is_refused_with_the_scheme_to_use() {
    let server = TestServer::start(&["--cluster-enabled", "yes"]);
    let rig = Rig::start(RedisConfig::new(&server.url(), "a").unwrap());
    let cause = rig.wait_for_down();
    assert_eq!(cause.kind, Failure::Refused);
    assert!(cause.to_string().contains("redis+cluster://"), "{cause}");
}

#[test]
fn out_of_memory_refuses_to_acquire_for_now_and_still_releases() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    rig.send("k", set(1)).unwrap();
    server.run::<()>("CONFIG SET maxmemory 1");
    for op in [set(2), enter(2, AcquireMode::Wait)] {
        let error = rig.send("j", op).unwrap_err();
        assert_eq!(error.kind, Failure::Later);
        assert!(error.to_string().contains("maxmemory"), "{error}");
    }
    assert_eq!(rig.send("k", leave(1)).unwrap(), Reply::Released { gap: false });
}

#[test]
fn whoever_is_queued_keeps_its_place_without_memory_for_more() {
    let server = TestServer::start(&[]);
    let (a, b) = (Rig::up(&server, "a"), Rig::up(&server, "b"));
    for kind in [Kind::Exclusive, Kind::Limited(1)] {
        let wait = |token, mode| {
            let claim = CLAIM;
            Op::Acquire { token: Token(token), kind, ttl: TTL, claim, mode, fences: 0 }
        };
        a.send("k", wait(1, AcquireMode::Wait)).unwrap();
        assert!(busy(b.send("k", wait(2, AcquireMode::Wait))).2);
        server.run::<()>("CONFIG SET maxmemory 1");
        assert!(busy(b.send("k", wait(2, AcquireMode::WaitAgain))).2);
        // As if the holder had gone.
        server.run::<()>("DEL k dl1:m:k");
        assert!(matches!(b.send("k", wait(2, AcquireMode::WaitAgain)), Ok(Reply::Acquired { .. })));
        assert_eq!(b.send("k", leave(2)).unwrap(), Reply::Released { gap: false });
        server.run::<()>("CONFIG SET maxmemory 0");
        assert_eq!(server.run::<i64>("DBSIZE"), 0);
    }
}

#[test]
fn somebody_elses_value_in_the_place_of_the_queue_does_not_keep_a_lock() {
    let server = TestServer::start(&[]);
    let rig = Rig::up(&server, "a");
    server.run::<()>("SET dl1:q:k theirs");
    rig.send("k", set(1)).unwrap();
    assert_eq!(rig.send("k", leave(1)).unwrap(), Reply::Released { gap: false });
    assert_eq!(server.run::<i64>("EXISTS k"), 0);
    assert_eq!(server.run::<String>("GET dl1:q:k"), "theirs");
}

#[test]
fn what_keeps_a_server_from_writing_refuses_everything_for_now_and_does_nothing() {
    for (setting, well, code) in [
        ("min-replicas-to-write 1", "min-replicas-to-write 0", "NOREPLICAS"),
        // While the last snapshot has failed.
        ("stop-writes-on-bgsave-error yes", "stop-writes-on-bgsave-error no", "MISCONF"),
    ] {
        let server = TestServer::start(&["--save", "3600 1"]);
        let (a, b) = (Rig::up(&server, "a"), Rig::up(&server, "b"));
        a.send("k", set(1)).unwrap();
        busy(b.send("k", enter(2, AcquireMode::Wait)));
        server.run::<()>(&format!("CONFIG SET {setting}"));
        if code == "MISCONF" {
            // In the place of the file.
            let dir: (String, String) = server.run("CONFIG GET dir");
            std::fs::create_dir_all(format!("{}/dump.rdb/in-the-way", dir.1)).unwrap();
            server.run::<String>("BGSAVE");
            wait_until("the snapshot has failed", Duration::from_secs(10), || {
                server.run::<String>("INFO persistence").contains("rdb_last_bgsave_status:err")
            });
        }
        for op in [leave(1), renew(1, 2 * TTL), set(3), enter(3, AcquireMode::Wait)] {
            let error = a.send("k", op.clone()).unwrap_err();
            assert_eq!(error.kind, Failure::Later, "{op:?}: {error}");
            assert!(error.to_string().contains(code), "{error}");
        }
        assert_eq!(server.run::<String>("GET k"), "dl1:a:1");
        assert_eq!(server.run::<Vec<String>>("LRANGE dl1:q:k 0 -1"), ["dl1:b:2"]);
        server.run::<()>(&format!("CONFIG SET {well}"));
        assert_eq!(a.send("k", leave(1)).unwrap(), Reply::Released { gap: false });
        assert!(matches!(b.wait_for_push(), Push::Grant { token: Token(2), .. }));
    }
}

#[test]
fn a_link_whose_answers_belong_to_other_questions_is_given_up() {
    // Knows scripts alone, and answers them with somebody else's reply.
    let server = Scripted::start(|words| match words {
        ["EVAL", ..] => Answer::Line(":1\r\n"),
        ["EVALSHA", ..] => Answer::Line("*3\r\n$7\r\nRENEWED\r\n$7\r\ndl1:a:9\r\n$1\r\n5\r\n"),
        _ => Answer::Line("-ERR unknown command\r\n"),
    });
    let url = server.url();
    let rig = Rig::start(RedisConfig::new(&url, "a").unwrap());
    assert_eq!(rig.wait_until_up(), (true, Pushes::Off));
    assert!(matches!(rig.send("k", renew(9, TTL)), Ok(Reply::Renewed { server_time: ServerTime(5) })));
    assert_eq!(failure(rig.send("k", renew(8, TTL))), Failure::Unknown);
    assert!(rig.wait_for_down().to_string().contains("not one to this question"));
    assert!(!rig.wait_until_up().0, "what cannot be killed may be alive");
}

#[test]
fn a_unix_socket_serves_like_an_address() {
    let path = std::env::temp_dir().join(format!("distlock-test-{}.sock", std::process::id()));
    let path = path.to_str().unwrap();
    let server = TestServer::start(&["--unixsocket", path]);
    let rig = Rig::start(RedisConfig::new(&format!("redis+unix://{path}?db=3"), "a").unwrap());
    assert_eq!(rig.wait_until_up(), (true, Pushes::On));
    rig.send("k", set(1)).unwrap();
    assert_eq!(server.run::<i64>("EXISTS k"), 0, "another database");
    server.stop();
    let pending = rig.begin("k", leave(1));
    assert_eq!(failure(pending.join().unwrap()), Failure::Unknown);
    server.resume();
    assert!(rig.wait_until_up().0, "the former links are dead");
    drop((rig, server));
    std::fs::remove_file(path).unwrap();
}

// ---- logins ----

#[test]
fn a_wrong_or_missing_password_is_refused_with_what_to_do() {
    let server = TestServer::start(&["--requirepass", "secret"]);
    for url in [server.url(), format!("redis://:wrong@127.0.0.1:{}/", server.port)] {
        let rig = Rig::start(RedisConfig::new(&url, "a").unwrap());
        for _ in 0..2 {
            let cause = rig.wait_for_down();
            assert_eq!(cause.kind, Failure::Refused, "{cause}");
            assert!(cause.to_string().contains("URL") && !cause.to_string().contains("wrong@"), "{cause}");
        }
    }
    let url = format!("redis://:secret@127.0.0.1:{}/", server.port);
    let rig = Rig::start(RedisConfig::new(&url, "a").unwrap());
    rig.wait_until_up();
    assert!(!rig.backend.describe().contains("secret") && !format!("{:?}", rig.backend).contains("secret"));
}

const LEAST: &str = "+evalsha +eval +set +get +del +pexpire +pttl +publish +subscribe +unsubscribe +ping \
                     +time +hset +hget +hdel +rpush +lpush +lpop +lrem +lindex";

fn with_user(server: &TestServer, name: &str, rules: &str) -> String {
    let mut words = vec!["ACL", "SETUSER", name, "on", ">pw"];
    words.extend(rules.split_whitespace());
    server.run_words::<()>(&words);
    format!("redis://{name}:pw@127.0.0.1:{}/", server.port)
}

#[test]
fn the_least_privileges_that_are_documented_are_enough() {
    let server = TestServer::start(&[]);
    let url = with_user(&server, "least", &format!("~p:* &p:* {LEAST}"));
    let connect = |client| {
        let config = RedisConfig { prefix: "p:".to_owned(), ..RedisConfig::new(&url, client).unwrap() };
        let rig = Rig::start(config);
        assert_eq!(rig.wait_until_up(), (true, Pushes::On));
        rig
    };
    let (a, b) = (connect("a"), connect("b"));
    a.send("k", fenced(1, AcquireMode::Try, 1)).unwrap();
    a.send("k", renew(1, TTL)).unwrap();
    busy(b.send("k", fenced(2, AcquireMode::Wait, 1)));
    b.send("k", fenced(2, AcquireMode::WaitAgain, 1)).unwrap();
    a.send("k", leave(1)).unwrap();
    assert!(matches!(b.wait_for_push(), Push::Grant { token: Token(2), .. }));
    assert_eq!(a.send("j", set(3)).unwrap(), Reply::Acquired { server_time: None, fence: None });
    a.send("j", leave(3)).unwrap();
    assert!(block_on(a.backend.force_release(&Arc::from("k"))).unwrap());
    // Without CLIENT KILL the former links may be alive.
    let ids = server.client_ids(|line| line.contains("user=least") && line.contains("sub=0"));
    for id in ids {
        server.run_words::<()>(&["CLIENT", "KILL", "ID", &id]);
    }
    a.wait_for_down();
    assert!(!a.wait_until_up().0);
}

#[test]
fn with_client_info_and_kill_the_former_links_are_dead() {
    let server = TestServer::start(&[]);
    let url = with_user(&server, "more", &format!("~* &* {LEAST} +client|info +client|kill"));
    let rig = Rig::start(RedisConfig::new(&url, "a").unwrap());
    rig.wait_until_up();
    for id in server.client_ids(|line| line.contains("user=more") && line.contains("sub=0")) {
        server.run_words::<()>(&["CLIENT", "KILL", "ID", &id]);
    }
    rig.wait_for_down();
    assert!(rig.wait_until_up().0);
}

#[test]
fn without_pub_sub_locks_work_and_waiters_must_poll() {
    let server = TestServer::start(&[]);
    let url = with_user(&server, "mute", "~* resetchannels +@all");
    let rig = Rig::start(RedisConfig::new(&url, "a").unwrap());
    assert_eq!(rig.wait_until_up(), (true, Pushes::Off));
    let other = Rig::up(&server, "b");
    rig.send("k", set(1)).unwrap();
    // A forbidden PUBLISH costs neither the release nor the waiter its place.
    busy(other.send("k", enter(2, AcquireMode::Wait)));
    assert_eq!(rig.send("k", leave(1)).unwrap(), Reply::Released { gap: false });
    assert_eq!(server.run::<String>("GET k"), "dl1:b:2");
}

#[test]
fn a_forbidden_script_is_refused_with_the_permissions_to_grant() {
    let server = TestServer::start(&[]);
    let url = with_user(&server, "noeval", "~* &* +@all -evalsha -eval");
    let rig = Rig::start(RedisConfig::new(&url, "a").unwrap());
    rig.wait_until_up();
    let error = rig.send("k", enter(1, AcquireMode::Try)).unwrap_err();
    assert_eq!(error.kind, Failure::Refused);
    assert!(error.to_string().contains("+evalsha"), "{error}");
}

// ---- pushes ----

fn is_pushes(seen: &Seen, wanted: Pushes) -> Option<()> {
    matches!(seen, Seen::Link(LinkEvent::Pushes(now)) if *now == wanted).then_some(())
}

fn grant_arrives(server: &TestServer, rig: &Rig) {
    server.run::<()>("SET k dl1:x:1 PX 10000");
    let holder = Rig::up(server, "x");
    busy(rig.send("k", enter(7, AcquireMode::Wait)));
    holder.send("k", leave(1)).unwrap();
    assert!(matches!(rig.wait_for_push(), Push::Grant { token: Token(7), .. }));
    rig.send("k", leave(7)).unwrap();
}

#[test]
fn pushes_are_there_with_the_first_up_and_come_over_resp3() {
    let server = TestServer::start(&[]);
    let rig = Rig::start(RedisConfig::new(&server.url(), "a").unwrap());
    assert_eq!(rig.wait_until_up(), (true, Pushes::On));
    assert_eq!(server.client_ids(|line| line.contains("sub=1") && line.contains("resp=3")).len(), 1);
    grant_arrives(&server, &rig);
}

#[test]
fn where_hello_is_forbidden_pushes_come_over_resp2() {
    let server = TestServer::start(&[]);
    let url = with_user(&server, "old", "~* &* +@all -hello");
    let rig = Rig::start(RedisConfig::new(&url, "a").unwrap());
    assert_eq!(rig.wait_until_up(), (true, Pushes::On));
    grant_arrives(&server, &rig);
}

#[test]
fn a_killed_push_connection_is_reported_and_made_again() {
    for (name, rules) in [("three", "~* &* +@all"), ("two", "~* &* +@all -hello")] {
        let server = TestServer::start(&[]);
        let url = with_user(&server, name, rules);
        let rig = Rig::start(RedisConfig::new(&url, "a").unwrap());
        rig.wait_until_up();
        let ids = server.client_ids(|line| line.contains("sub=1"));
        server.run_words::<()>(&["CLIENT", "KILL", "ID", &ids[0]]);
        rig.wait_for("Pushes(Off)", |seen| is_pushes(seen, Pushes::Off));
        rig.wait_for("Pushes(On)", |seen| is_pushes(seen, Pushes::On));
        grant_arrives(&server, &rig);
    }
}
