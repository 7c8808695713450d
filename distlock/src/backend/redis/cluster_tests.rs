//! The contract in a cluster of real processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::slots::slot_of;
use super::test_cluster::{Cluster, MASTERS, REPLICA};
use super::test_server::{LONG, Rig, Seen, TestServer, block_on, finish, wait_until};
use super::{ClusterBackend, RedisConfig};
use crate::LockManager;
use crate::backend::{
    AcquireMode, Backend, Failure, Kind, LinkEvent, Op, Push, Pushes, Reply, ServerTime, Token,
};

const TTL: Duration = Duration::from_secs(10);

fn set(token: u64) -> Op {
    Op::TryAcquire { token: Token(token), ttl: TTL }
}

fn enter(token: u64, mode: AcquireMode, fences: u32) -> Op {
    Op::Acquire {
        token: Token(token),
        kind: Kind::Exclusive,
        ttl: TTL,
        claim: Duration::from_secs(3),
        mode,
        fences,
    }
}

fn leave(token: u64) -> Op {
    Op::Release { token: Token(token), keep_taken_for: None, handoffs_began: ServerTime(0) }
}

fn renew(token: u64) -> Op {
    Op::Renew { token: Token(token), kind: Kind::Exclusive, ttl: TTL }
}

fn enter_as(kind: Kind, token: u64) -> Op {
    let Op::Acquire { token, ttl, claim, mode, fences, .. } = enter(token, AcquireMode::Wait, 0) else {
        unreachable!()
    };
    Op::Acquire { token, kind, ttl, claim, mode, fences }
}

fn renew_as(kind: Kind, token: u64) -> Op {
    Op::Renew { token: Token(token), kind, ttl: TTL }
}

/// Sends until there is a reply.
fn persist(rig: &Rig<ClusterBackend>, key: &str, op: &Op) -> (Reply, Duration) {
    let start = Instant::now();
    let key = Arc::from(key);
    loop {
        match finish(rig.backend.send(&key, op.clone())) {
            Ok(reply) => return (reply, start.elapsed()),
            Err(error) => {
                assert_ne!(error.kind, Failure::Refused, "{error}");
                assert!(start.elapsed() < LONG, "{error}");
            }
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_lock_and_all_that_belongs_to_it_live_in_one_slot_for_every_key() {
    let cluster = Cluster::start();
    let (a, b) = (cluster.rig("a"), cluster.rig("b"));
    let keys = ["k", "a}b", "{", "{}", "{}x", "{a}b", "x{y}{z}", "}{", "a b", "user:{42}:x", "1", "2", "3"];
    for key in keys {
        let Ok(Reply::Acquired { fence: Some(first), .. }) = a.send(key, enter(1, AcquireMode::Try, 1))
        else {
            panic!("{key}")
        };
        assert!(matches!(b.send(key, enter(2, AcquireMode::Wait, 1)), Ok(Reply::Busy { front: true, .. })));
        let seen = block_on(b.backend.inspect(&Arc::from(key))).unwrap().unwrap();
        assert_eq!((&*seen.holder, seen.waiters), ("dl1:a:1", 1));
        assert!(matches!(a.send(key, renew(1)), Ok(Reply::Renewed { .. })));
        assert_eq!(a.send(key, leave(1)).unwrap(), Reply::Released { gap: false });
        match b.wait_for_push() {
            Push::Grant { key: granted, token: Token(2), fence: Some(second), .. } => {
                assert_eq!(&*granted, key);
                assert!(second > first);
            }
            other => panic!("{other:?}"),
        }
        assert!(block_on(a.backend.force_release(&Arc::from(key))).unwrap());
        assert_eq!(b.send(key, leave(2)).unwrap(), Reply::NotHeld);
    }
    for key in cluster.keys() {
        assert!(key.starts_with("dl1:f{"), "residue: {key}");
    }
    assert_eq!(a.seen().len(), 1, "one Up and nothing else: {:?}", a.seen());
}

#[test]
fn a_batch_is_shared_out_and_answered_in_order() {
    let cluster = Cluster::start();
    let rig = cluster.rig("a");
    for server in cluster.masters() {
        server.run::<()>("SCRIPT FLUSH");
    }
    let mut batch = Vec::new();
    for number in 0..600 {
        batch.push((Arc::from(format!("k{number}")), set(number)));
        batch.push((Arc::from(format!("k{number}")), renew(number)));
        batch.push((Arc::from(format!("k{number}")), leave(number + u64::from(number % 7 == 0))));
    }
    let results = block_on(rig.backend.send_batch(batch));
    assert_eq!(results.len(), 1_800);
    for (number, three) in results.chunks(3).enumerate() {
        assert!(matches!(three[0], Ok(Reply::Acquired { .. })), "{three:?}");
        assert!(matches!(three[1], Ok(Reply::Renewed { .. })), "{three:?}");
        let last = three[2].as_ref().unwrap();
        assert_eq!(*last == Reply::NotHeld, number % 7 == 0, "{three:?}");
    }
    assert_eq!(cluster.keys().len(), 86);
}

#[test]
fn a_slot_that_has_moved_is_followed() {
    let cluster = Cluster::start();
    let (a, b) = (cluster.rig("a"), cluster.rig("b"));
    let key = cluster.key_at(0);
    let slot = slot_of("", &key);
    a.send(&key, enter(1, AcquireMode::Try, 1)).unwrap();
    b.send(&key, enter(2, AcquireMode::Wait, 1)).unwrap();
    cluster.begin_to_move(slot, 0, 1);
    cluster.move_keys(slot, 0, 1);
    cluster.end_to_move(slot, 0, 1);
    // The grant comes from the new node, and b has not heard of that: it is told to trust nothing older.
    assert_eq!(a.send(&key, leave(1)).unwrap(), Reply::Released { gap: false });
    let up = AtomicBool::new(false);
    b.wait_for("Grant", |seen| {
        up.fetch_or(matches!(seen, Seen::Link(LinkEvent::Up { .. })), Ordering::SeqCst);
        matches!(seen, Seen::Push(Push::Grant { token: Token(2), .. })).then_some(())
    });
    assert!(up.into_inner(), "{:?}", b.seen());
    assert!(matches!(b.send(&key, renew(2)), Ok(Reply::Renewed { .. })));
    b.send(&key, leave(2)).unwrap();
    assert!(cluster.keys().iter().all(|key| key.starts_with("dl1:f{")), "{:?}", cluster.keys());
    a.wait_until_up();
}

#[test]
fn while_a_slot_moves_free_locks_are_acquired_and_held_ones_renewed() {
    let cluster = Cluster::start();
    let (a, b) = (cluster.rig("a"), cluster.rig("b"));
    let held = cluster.key_at(0);
    let slot = slot_of("", &held);
    let free = format!("free{{{}}}", super::slots::tag_of(slot));
    a.send(&held, enter(1, AcquireMode::Try, 0)).unwrap();
    b.send(&held, enter(2, AcquireMode::Wait, 0)).unwrap();
    cluster.begin_to_move(slot, 0, 1);
    // A key that is not there yet is made at the new node (ASK); one that still is stays.
    assert_eq!(a.send(&free, set(3)).unwrap(), Reply::Acquired { server_time: None, fence: None });
    assert_eq!(
        cluster.servers[1].run_words::<Vec<String>>(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "9"]),
        std::slice::from_ref(&free)
    );
    for (key, token) in [(&held, 1), (&free, 3)] {
        assert!(matches!(a.send(key, renew(token)), Ok(Reply::Renewed { .. })), "{key}");
    }
    let error = a.send(&free, leave(3)).unwrap_err();
    assert_eq!(error.kind, Failure::Later, "{error}");
    cluster.servers[0].run::<()>("SCRIPT FLUSH");
    cluster.servers[1].run::<()>("SCRIPT FLUSH");
    cluster.move_keys(slot, 0, 1);
    for (key, token) in [(&held, 1), (&free, 3)] {
        assert!(matches!(a.send(key, renew(token)), Ok(Reply::Renewed { .. })), "{key}");
    }
    cluster.end_to_move(slot, 0, 1);
    assert_eq!(persist(&a, &free, &leave(3)).0, Reply::Released { gap: false });
    assert_eq!(persist(&a, &held, &leave(1)).0, Reply::Released { gap: false });
    assert!(matches!(b.wait_for_push(), Push::Grant { token: Token(2), .. }));
    b.send(&held, leave(2)).unwrap();
    assert_eq!(cluster.keys(), Vec::<String>::new());
}

fn granted(rig: &Rig<ClusterBackend>, token: u64) {
    assert!(matches!(rig.wait_for_push(), Push::Grant { token: Token(now), .. } if now == token));
}

#[test]
fn several_locks_of_one_slot_are_taken_by_one_command_and_without_it_while_the_slot_moves() {
    let cluster = Cluster::start();
    let (a, b) = (cluster.rig("a"), cluster.rig("b"));
    let (tag, elsewhere) = (cluster.key_at(0), Arc::from(cluster.key_at(1)));
    let slot = slot_of("", &tag);
    let keys: Vec<Arc<str>> = ["1", "2", "3"].map(|end| Arc::from(format!("{{{tag}}}{end}"))).into();
    let with_other = [&keys[..], &[Arc::clone(&elsewhere)]].concat();
    assert_eq!(a.backend.acquires_all(&with_other), 3);
    assert_eq!(a.backend.acquires_all(&[elsewhere, keys[0].clone()]), 1);
    let take = |rig: &Rig<ClusterBackend>, kind, first: u64| -> Vec<_> {
        let batch = keys.iter().cloned().zip((first..).map(|token| {
            let Op::Acquire { token, ttl, claim, fences, .. } = enter_as(kind, token) else { unreachable!() };
            Op::Acquire { token, kind, ttl, claim, mode: AcquireMode::Try, fences }
        }));
        block_on(rig.backend.send_acquire_all(batch.collect()))
            .into_iter()
            .map(|reply| reply.unwrap())
            .collect()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let manager = runtime.block_on(LockManager::connect(cluster.url())).unwrap();
    for (kind, (from, to)) in [(Kind::Exclusive, (0, 1)), (Kind::Shared, (1, 0))] {
        assert!(matches!(b.send(&keys[1], enter_as(Kind::Exclusive, 9)), Ok(Reply::Acquired { .. })));
        let replies = take(&a, kind, 1);
        assert!(
            matches!(&replies[..], [Reply::Acquired { .. }, Reply::Busy { .. }, Reply::Skipped]),
            "{replies:?}"
        );
        a.send(&keys[0], leave(1)).unwrap();
        b.send(&keys[1], leave(9)).unwrap();
        let request = || match kind {
            Kind::Shared => manager.lock_all(keys.iter().map(|key| &**key)).shared(),
            _ => manager.lock_all(keys.iter().map(|key| &**key)),
        };
        cluster.begin_to_move(slot, from, to);
        let meanwhile = runtime.spawn(request().wait(LONG).acquire());
        cluster.move_keys(slot, from, to);
        cluster.end_to_move(slot, from, to);
        runtime.block_on(async { meanwhile.await.unwrap().unwrap().release().await.unwrap() });
        assert!(take(&a, kind, 11).iter().all(Reply::is_acquired));
        for (key, token) in keys.iter().zip(11..) {
            assert_eq!(a.send(key, leave(token)).unwrap(), Reply::Released { gap: false });
        }
    }
    runtime.block_on(manager.shutdown(Duration::from_secs(5)));
    wait_until("nothing is left", LONG, || cluster.keys().is_empty());
}

#[test]
fn readers_share_and_take_turns_with_a_writer_here_too() {
    let cluster = Cluster::start();
    let (a, b) = (cluster.rig("a"), cluster.rig("b"));
    let key = cluster.key_at(1);
    for (rig, token) in [(&a, 1), (&b, 2)] {
        assert!(matches!(rig.send(&key, enter_as(Kind::Shared, token)), Ok(Reply::Acquired { .. })));
    }
    assert!(matches!(b.send(&key, enter(3, AcquireMode::Wait, 0)), Ok(Reply::Busy { .. })));
    // Not past the writer that waits.
    assert!(matches!(a.send(&key, enter_as(Kind::Shared, 4)), Ok(Reply::Busy { .. })));
    let (all, slot) = (cluster.keys(), slot_of("", &key).to_string());
    assert_eq!(all.len(), 4, "{all:?}");
    let mut there: Vec<String> = cluster.servers[1].run_words(&["CLUSTER", "GETKEYSINSLOT", &slot, "9"]);
    there.sort();
    assert_eq!(there, all);
    for (rig, token) in [(&a, 1), (&b, 2)] {
        assert!(matches!(rig.send(&key, renew_as(Kind::Shared, token)), Ok(Reply::Renewed { .. })));
    }
    assert_eq!(a.send(&key, renew_as(Kind::Shared, 4)).unwrap(), Reply::NotHeld);
    a.send(&key, leave(1)).unwrap();
    b.send(&key, leave(2)).unwrap();
    granted(&b, 3);
    b.send(&key, leave(3)).unwrap();
    granted(&a, 4);
    a.send(&key, leave(4)).unwrap();
    assert_eq!(cluster.keys(), Vec::<String>::new());
}

#[test]
fn no_more_than_the_limit_get_in_here_too() {
    let cluster = Cluster::start();
    let (a, b) = (cluster.rig("a"), cluster.rig("b"));
    let (key, kind) = (cluster.key_at(2), Kind::Limited(2));
    for (rig, token) in [(&a, 1), (&b, 2)] {
        assert!(matches!(rig.send(&key, enter_as(kind, token)), Ok(Reply::Acquired { .. })));
    }
    assert!(matches!(b.send(&key, enter_as(kind, 3)), Ok(Reply::Busy { .. })));
    assert!(matches!(a.send(&key, enter(4, AcquireMode::Wait, 0)), Ok(Reply::WrongKind { .. })));
    a.send(&key, leave(1)).unwrap();
    granted(&b, 3);
    for token in [2, 3] {
        assert!(matches!(b.send(&key, renew_as(kind, token)), Ok(Reply::Renewed { .. })));
        b.send(&key, leave(token)).unwrap();
    }
    assert_eq!(cluster.keys(), Vec::<String>::new());
}

#[test]
fn a_shared_lease_is_renewed_unless_its_slot_has_moved_by_half() {
    let cluster = Cluster::start();
    let a = cluster.rig("a");
    let key = cluster.key_at(0);
    let slot = slot_of("", &key);
    let renew = renew_as(Kind::Shared, 1);
    a.send(&key, enter_as(Kind::Shared, 1)).unwrap();
    cluster.begin_to_move(slot, 0, 1);
    assert!(matches!(a.send(&key, renew.clone()), Ok(Reply::Renewed { .. })));
    let port = cluster.servers[1].port.to_string();
    cluster.servers[0].run_words::<()>(&["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"]);
    let error = a.send(&key, renew.clone()).unwrap_err();
    assert_eq!(error.kind, Failure::Later, "{error}");
    cluster.move_keys(slot, 0, 1);
    assert!(matches!(a.send(&key, renew.clone()), Ok(Reply::Renewed { .. })));
    cluster.end_to_move(slot, 0, 1);
    assert!(matches!(persist(&a, &key, &renew).0, Reply::Renewed { .. }));
    assert_eq!(persist(&a, &key, &leave(1)).0, Reply::Released { gap: false });
    assert_eq!(cluster.keys(), Vec::<String>::new());
}

#[test]
fn a_killed_master_is_replaced_by_its_replica_and_the_others_serve_on() {
    let mut cluster = Cluster::start();
    let (a, b) = (cluster.rig("a"), cluster.rig("b"));
    let (lost, other) = (cluster.key_at(0), cluster.key_at(1));
    a.send(&lost, set(1)).unwrap();
    a.send(&other, set(2)).unwrap();
    b.send(&lost, enter(3, AcquireMode::Wait, 0)).unwrap();
    wait_until("the lock is replicated", LONG, || {
        let mut connection = cluster.servers[REPLICA].connection();
        redis::cmd("DBSIZE").query::<i64>(&mut connection).unwrap() == 3
    });
    cluster.servers[0].kill();
    let start = Instant::now();
    assert!(matches!(a.send(&other, renew(2)), Ok(Reply::Renewed { .. })), "other masters go on");
    let (reply, _) = persist(&a, &lost, &renew(1));
    assert!(matches!(reply, Reply::Renewed { .. }), "{reply:?}");
    eprintln!("a master killed -9, cluster-node-timeout 1 s: {:?} until the next reply", start.elapsed());
    assert!(a.wait_until_up().0, "the former links are dead");
    b.wait_until_up();
    wait_until("b listens", LONG, || {
        let listeners =
            cluster.servers[1..].iter().map(|server| server.client_ids(|line| line.contains("sub=1")).len());
        listeners.sum::<usize>() == 6
    });
    assert!(matches!(b.send(&lost, enter(3, AcquireMode::WaitAgain, 0)), Ok(Reply::Busy { .. })));
    a.send(&lost, leave(1)).unwrap();
    assert!(matches!(b.wait_for_push(), Push::Grant { token: Token(3), .. }));
    b.send(&lost, leave(3)).unwrap();
    a.send(&other, leave(2)).unwrap();
    for server in &cluster.servers[1..] {
        assert_eq!(server.run::<i64>("DBSIZE"), 0, "no residue");
    }
    let downs = a.seen().iter().filter(|seen| matches!(seen, Seen::Link(LinkEvent::Down { .. }))).count();
    assert_eq!(downs, 0, "one master's loss is not the cluster's");
}

#[test]
fn a_frozen_master_costs_nothing_elsewhere_and_its_operations_end() {
    let cluster = Cluster::start();
    let rig = cluster.rig("a");
    let (frozen, other) = (cluster.key_at(2), cluster.key_at(1));
    cluster.servers[2].stop();
    let pending = rig.begin(&frozen, set(1));
    let start = Instant::now();
    rig.send(&other, set(2)).unwrap();
    assert!(start.elapsed() < Duration::from_millis(600), "{:?}", start.elapsed());
    assert_eq!(pending.join().unwrap().unwrap_err().kind, Failure::Unknown);
    assert!(start.elapsed() < Duration::from_millis(1_500), "{:?}", start.elapsed());
    cluster.servers[2].resume();
    assert!(rig.wait_until_up().0, "the old link was killed on the server");
    persist(&rig, &frozen, &leave(1));
    persist(&rig, &other, &leave(2));
    assert_eq!(cluster.keys(), Vec::<String>::new());
}

#[test]
fn losing_every_master_is_down_and_finding_them_again_is_up() {
    let cluster = Cluster::start();
    let rig = cluster.rig("a");
    for server in &cluster.servers {
        server.stop();
    }
    rig.wait_for_down();
    assert_eq!(rig.send("k", set(1)).unwrap_err().kind, Failure::NotSent);
    for server in &cluster.servers {
        server.resume();
    }
    rig.wait_until_up();
    assert!(matches!(persist(&rig, "k", &set(1)).0, Reply::Acquired { .. }));
}

#[test]
fn a_push_arrives_once_and_losing_one_subscription_loses_none() {
    let cluster = Cluster::start();
    let (rig, other) = (cluster.rig("a"), cluster.rig("b"));
    let ids = |server: &TestServer| server.client_ids(|line| line.contains("sub=1"));
    let everywhere = || cluster.masters().iter().all(|server| ids(server).len() == 2);
    wait_until("both listen on every master", LONG, everywhere);
    let granted = |at: usize, token: u64| {
        let key = cluster.key_at(at);
        other.send(&key, set(token)).unwrap();
        rig.send(&key, enter(token, AcquireMode::Wait, 0)).unwrap();
        other.send(&key, leave(token)).unwrap();
        assert!(matches!(rig.wait_for_push(), Push::Grant { token: Token(now), .. } if now == token));
        rig.send(&key, leave(token)).unwrap();
    };
    for at in 0..MASTERS {
        granted(at, 10 + at as u64);
    }
    for id in ids(&cluster.servers[0]) {
        cluster.servers[0].run_words::<()>(&["CLIENT", "KILL", "ID", &id]);
    }
    granted(0, 20);
    wait_until("both listen on every master again", LONG, everywhere);
    thread::sleep(Duration::from_millis(200));
    let seen = rig.seen();
    let pushes = seen.iter().filter(|seen| matches!(seen, Seen::Push(_))).count();
    assert_eq!(pushes, MASTERS + 1, "{seen:?}");
    assert!(!seen.iter().any(|seen| matches!(seen, Seen::Link(LinkEvent::Pushes(Pushes::Off)))), "{seen:?}");
}

#[test]
fn losing_every_subscription_is_reported() {
    let cluster = Cluster::start();
    let rig = cluster.rig("a");
    for server in cluster.masters() {
        let rules = ["ACL", "SETUSER", "default", "-subscribe"];
        server.run_words::<()>(&rules);
        for id in server.client_ids(|line| line.contains("sub=1")) {
            server.run_words::<()>(&["CLIENT", "KILL", "ID", &id]);
        }
    }
    rig.wait_for("Pushes(Off)", |seen| {
        matches!(seen, Seen::Link(LinkEvent::Pushes(Pushes::Off))).then_some(())
    });
}

#[test]
fn a_server_by_itself_is_refused_with_the_scheme_to_use() {
    let server = TestServer::start(&[]);
    let url = format!("redis+cluster://127.0.0.1:{}", server.port);
    let rig = Rig::run(ClusterBackend::new(RedisConfig::new(&url, "a").unwrap()).unwrap());
    let cause = rig.wait_for_down();
    assert_eq!(cause.kind, Failure::Refused, "{cause}");
    assert!(cause.to_string().contains("`redis://`"), "{cause}");
}

#[test]
fn sections_never_overlap_while_their_slot_moves_to_and_fro() {
    let cluster = Cluster::start();
    let key = cluster.key_at(0);
    let slot = slot_of("", &key);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let inside = Arc::new(AtomicBool::new(false));
    let overlaps = Arc::new(AtomicU64::new(0));
    let sections = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    let mut managers = Vec::new();
    for _ in 0..3 {
        let manager = runtime.block_on(LockManager::connect(cluster.url())).unwrap();
        managers.push(manager.clone());
        for _ in 0..3 {
            let (manager, key) = (manager.clone(), key.clone());
            let (inside, overlaps, sections, stop) =
                (inside.clone(), overlaps.clone(), sections.clone(), stop.clone());
            tasks.push(runtime.spawn(async move {
                let mut last = 0;
                let mut slowest = Duration::ZERO;
                while !stop.load(Ordering::SeqCst) {
                    let start = Instant::now();
                    let guard = manager.lock(&*key).ttl(TTL).wait(LONG).fenced().acquire().await.unwrap();
                    slowest = slowest.max(start.elapsed());
                    let fence = guard.fencing_token().unwrap().get();
                    assert!(fence > last, "{fence} after {last}");
                    last = fence;
                    if inside.swap(true, Ordering::SeqCst) {
                        overlaps.fetch_add(1, Ordering::SeqCst);
                    }
                    tokio::task::yield_now().await;
                    inside.store(false, Ordering::SeqCst);
                    sections.fetch_add(1, Ordering::SeqCst);
                    drop(guard.release().await);
                }
                slowest
            }));
        }
    }
    for round in 0..6 {
        let (from, to) = if round % 2 == 0 { (0, 1) } else { (1, 0) };
        thread::sleep(Duration::from_millis(300));
        cluster.begin_to_move(slot, from, to);
        thread::sleep(Duration::from_millis(100));
        cluster.move_keys(slot, from, to);
        cluster.end_to_move(slot, from, to);
    }
    thread::sleep(Duration::from_millis(300));
    stop.store(true, Ordering::SeqCst);
    let slowest = tasks.into_iter().map(|task| runtime.block_on(task).unwrap()).max().unwrap();
    eprintln!(
        "a slot moved 6 times under load: {} sections, 0 overlaps, slowest acquire {slowest:?}",
        sections.load(Ordering::SeqCst)
    );
    assert_eq!(overlaps.load(Ordering::SeqCst), 0);
    for manager in managers {
        runtime.block_on(manager.shutdown(Duration::from_secs(5)));
    }
    for key in cluster.keys() {
        assert!(key.starts_with("dl1:f{"), "residue: {key}");
    }
}

#[test]
fn a_prefix_with_a_hash_tag_puts_everything_into_one_slot() {
    let cluster = Cluster::start();
    let config =
        RedisConfig { prefix: "{shop}:".to_owned(), ..RedisConfig::new(&cluster.url(), "a").unwrap() };
    let rig = Rig::run(ClusterBackend::new(config).unwrap());
    rig.wait_until_up();
    for key in ["a", "b{c}", "}{"] {
        assert!(matches!(rig.send(key, enter(1, AcquireMode::Wait, 1)), Ok(Reply::Acquired { .. })));
        assert!(matches!(rig.send(key, enter(2, AcquireMode::Wait, 1)), Ok(Reply::Busy { .. })));
        assert_eq!(rig.send(key, leave(2)).unwrap(), Reply::Cancelled);
        assert_eq!(rig.send(key, leave(1)).unwrap(), Reply::Released { gap: false });
    }
    assert_eq!(cluster.keys(), ["{shop}:dl1:f"]);
}

/// Sections, and scripts run for each, of four managers that contend for `key` for two seconds.
fn contend(url: &str, key: &str, servers: &[TestServer]) -> (u64, f64) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let managers: Vec<_> = (0..4).map(|_| runtime.block_on(LockManager::connect(url)).unwrap()).collect();
    let commands = || -> u64 {
        let calls = |server: &TestServer| -> u64 {
            let stats: String = server.run("INFO commandstats");
            let calls = stats.lines().filter_map(|line| {
                let ours = ["evalsha", "eval"]
                    .iter()
                    .find_map(|verb| line.strip_prefix(&format!("cmdstat_{verb}:calls=")));
                ours?.split(',').next()?.parse::<u64>().ok()
            });
            calls.sum()
        };
        servers.iter().map(calls).sum()
    };
    let before = commands();
    let tasks: Vec<_> = managers
        .iter()
        .map(|manager| {
            let (manager, key, stop) = (manager.clone(), key.to_owned(), stop.clone());
            runtime.spawn(async move {
                let mut sections = 0_u64;
                while !stop.load(Ordering::SeqCst) {
                    let guard = manager.lock(&*key).ttl(TTL).acquire().await.unwrap();
                    sections += 1;
                    guard.release().await.unwrap();
                }
                sections
            })
        })
        .collect();
    thread::sleep(Duration::from_secs(2));
    stop.store(true, Ordering::SeqCst);
    let sections: u64 = tasks.into_iter().map(|task| runtime.block_on(task).unwrap()).sum();
    (sections, (commands() - before) as f64 / sections as f64)
}

#[test]
fn a_hand_off_costs_two_commands_here_too() {
    let server = TestServer::start(&[]);
    let (alone, commands) = contend(&server.url(), "k", std::slice::from_ref(&server));
    eprintln!("four processes, one key of one server: {alone} sections, {commands:.2} commands each");
    let cluster = Cluster::start();
    let (sections, commands) = contend(&cluster.url(), &cluster.key_at(1), &cluster.servers);
    eprintln!("four processes, one key of a cluster: {sections} sections, {commands:.2} commands each");
    assert!(commands < 2.3, "{commands}");
    // Grants that had to cross from node to node would take up to 40 ms each.
    assert!(4 * sections > alone, "{sections} sections in the cluster, {alone} on one server");
}

#[test]
fn lazy_connects_with_the_first_operation() {
    let cluster = Cluster::start();
    let config = RedisConfig { lazy: true, ..RedisConfig::new(&cluster.url(), "a").unwrap() };
    let rig = Rig::run(ClusterBackend::new(config).unwrap());
    thread::sleep(Duration::from_millis(100));
    assert!(rig.seen().is_empty());
    assert_eq!(rig.send("k", set(1)).unwrap_err().kind, Failure::NotSent);
    rig.wait_until_up();
    assert!(rig.send("k", set(1)).is_ok());
}

#[test]
fn a_few_privileges_more_than_on_one_server_are_enough() {
    let cluster = Cluster::start();
    for server in &cluster.servers {
        let rules = "ACL SETUSER least on >pw ~* &* +evalsha +eval +set +get +del +pexpire +pttl +publish +subscribe \
                     +unsubscribe +ping +time +hset +hget +hdel +rpush +lpush +lpop +lrem +lindex \
                     +cluster|slots +cluster|info +asking";
        server.run_words::<()>(&rules.split_whitespace().collect::<Vec<_>>());
    }
    let url = cluster.url().replace("://", "://least:pw@");
    let connect = |client| {
        let rig = Rig::run(ClusterBackend::new(RedisConfig::new(&url, client).unwrap()).unwrap());
        assert_eq!(rig.wait_until_up(), (true, Pushes::On));
        rig
    };
    let (a, b) = (connect("a"), connect("b"));
    let key = cluster.key_at(0);
    a.send(&key, enter(1, AcquireMode::Try, 1)).unwrap();
    b.send(&key, enter(2, AcquireMode::Wait, 1)).unwrap();
    let slot = slot_of("", &key);
    cluster.begin_to_move(slot, 0, 1);
    let free = format!("free{{{}}}", super::slots::tag_of(slot));
    assert!(matches!(a.send(&free, set(3)), Ok(Reply::Acquired { .. })));
    cluster.move_keys(slot, 0, 1);
    cluster.end_to_move(slot, 0, 1);
    persist(&a, &free, &leave(3));
    persist(&a, &key, &leave(1));
    assert!(matches!(b.wait_for_push(), Push::Grant { token: Token(2), .. }));
    b.send(&key, leave(2)).unwrap();
}

#[test]
fn a_cluster_whose_nodes_have_no_host_names_says_what_to_set() {
    let server = TestServer::start(&["--cluster-enabled", "yes"]);
    server.run::<()>("CLUSTER ADDSLOTSRANGE 0 16383");
    server.run::<()>("CONFIG SET cluster-preferred-endpoint-type hostname");
    let url = format!("redis+cluster://127.0.0.1:{}", server.port);
    let rig = Rig::run(ClusterBackend::new(RedisConfig::new(&url, "a").unwrap()).unwrap());
    let cause = rig.wait_for_down();
    assert_eq!(cause.kind, Failure::Refused, "{cause}");
    assert!(cause.to_string().contains("`cluster-announce-hostname`"), "{cause}");
    server.run::<()>("CONFIG SET cluster-announce-hostname localhost");
    rig.wait_until_up();
}

/// How often the servers were asked for the map since their counters were reset.
fn questions(servers: &[TestServer]) -> u64 {
    let calls = |info: &str, command: &str| -> u64 {
        let line = info.lines().find_map(|line| line.strip_prefix(command)?.strip_prefix(":calls="));
        line.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
    };
    let of_one = |server: &TestServer| {
        let info: String = server.run("INFO commandstats");
        calls(&info, "cmdstat_cluster|slots") + calls(&info, "cmdstat_cluster|info")
    };
    servers.iter().map(of_one).sum()
}

#[test]
fn while_a_master_is_gone_for_good_the_others_are_asked_seldom_for_the_map() {
    for coverage in ["no", "yes"] {
        let mut cluster = Cluster::start();
        for server in &cluster.servers {
            server.run::<()>(&format!("CONFIG SET cluster-require-full-coverage {coverage}"));
        }
        let rig = cluster.rig("a");
        let (dead, served) = (1, cluster.key_at(2));
        cluster.servers[dead].kill();
        // Longer than questions are asked quickly.
        let start = Instant::now();
        let unserved = cluster.key_at(dead);
        while start.elapsed() < Duration::from_secs(5) {
            drop(rig.send(&unserved, set(1)));
            thread::sleep(Duration::from_millis(20));
        }
        cluster.servers.remove(dead);
        for server in &cluster.servers {
            server.run::<()>("CONFIG RESETSTAT");
        }
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(6) {
            // Where full coverage is required, each of them is answered by CLUSTERDOWN.
            let answer = rig.send(&served, set(2));
            assert_eq!(coverage == "yes", answer.is_err(), "{answer:?}");
            drop(rig.send(&served, leave(2)));
            thread::sleep(Duration::from_millis(20));
        }
        let asked = questions(&cluster.servers);
        eprintln!("full coverage {coverage}: {asked} questions in 6 s");
        assert!(asked <= 36, "{asked}");
    }
}
