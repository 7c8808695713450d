//! Slots that move.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::{TTL, enter, enter_as, granted, leave, persist, renew, renew_as, scripts, set};

use crate::LockManager;
use crate::backend::redis::slots::{slot_of, tag_of};
use crate::backend::redis::test_cluster::Cluster;
use crate::backend::redis::test_scripted::{Answer, Scripted};
use crate::backend::redis::test_server::{LONG, Rig, Seen, block_on, wait_until};
use crate::backend::redis::{ClusterBackend, RedisConfig};
use crate::backend::{
    AcquireMode, AcquireReply, Backend, BatchReply, Failure, LinkEvent, LockKind, Push, PushHint,
    ReleaseReply, RenewReply, Token, op,
};

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
    // The grant comes from the new node, which b does not know yet. So it is only a hint, and no older time counts.
    assert_eq!(a.send(&key, leave(1)).unwrap(), ReleaseReply::Released { gap: false });
    let up = AtomicBool::new(false);
    b.wait_for("hint", |seen| {
        up.fetch_or(matches!(seen, Seen::Link(LinkEvent::Up { .. })), Ordering::SeqCst);
        let is_grant = matches!(seen, Seen::Push(Push::Grant { token: Token(2), .. }));
        assert!(!is_grant || up.load(Ordering::SeqCst), "its time would be compared");
        (is_grant || matches!(seen, Seen::Hint(PushHint::Unproven { token: Token(2), .. }))).then_some(())
    });
    assert!(matches!(b.send(&key, renew(2)), Ok(RenewReply::Renewed { .. })));
    b.send(&key, leave(2)).unwrap();
    assert!(cluster.keys().iter().all(|key| key.starts_with("dl1:f{")), "{:?}", cluster.keys());
    a.wait_until_up();
}

/// The node that takes a slot over may be unreachable for this process alone.
#[test]
fn a_renewal_that_is_redirected_to_a_node_without_a_link_delays_no_other() {
    const RENEWED: &str = "*3\r\n$7\r\nRENEWED\r\n$7\r\ndl1:a:1\r\n$16\r\n1700000000000000\r\n";
    // It accepts connections, and answers nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let asking: &str = format!("-ASK 1 {}\r\n", silent.local_addr().unwrap()).leak();
    let slots = Arc::new(OnceLock::<&str>::new());
    let known = slots.clone();
    let server = Scripted::start(move |words| {
        Answer::Line(match words {
            ["PING"] => "+PONG\r\n",
            ["EVAL", "return 1", ..] => ":1\r\n",
            ["CLUSTER", "SLOTS"] => known.get().expect("set before the first connection"),
            ["EVALSHA", _, _, "held", ..] => RENEWED,
            ["EVALSHA", ..] => asking,
            _ => "-ERR unknown command\r\n",
        })
    });
    let port = server.address.port();
    let map = format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n");
    slots.set(map.leak()).unwrap();
    let config = RedisConfig::new(&format!("redis+cluster://{}", server.address), "a").unwrap();
    let config = RedisConfig { connect_timeout: Duration::from_secs(3_600), ..config };
    let rig = Rig::run(ClusterBackend::new(config).unwrap());
    rig.wait_until_up();
    let keys = ["there", "held", "there too"].map(Arc::from);
    let parts = rig.backend.send_renew_all(keys.into_iter().map(|key| (key, renew(1))).collect());
    for part in parts {
        let results = block_on(part.results);
        assert!(matches!(results[1], Ok(RenewReply::Renewed { .. })), "{results:?}");
        for at in [0, 2] {
            assert_eq!(results[at].as_ref().unwrap_err().kind, Failure::NotSent, "{results:?}");
        }
    }
}

#[test]
fn while_a_slot_moves_free_locks_are_acquired_and_held_ones_renewed() {
    let cluster = Cluster::start();
    let (a, b) = (cluster.rig("a"), cluster.rig("b"));
    let held = cluster.key_at(0);
    let slot = slot_of("", &held);
    let free = format!("free{{{}}}", tag_of(slot));
    a.send(&held, enter(1, AcquireMode::Try, 0)).unwrap();
    b.send(&held, enter(2, AcquireMode::Wait, 0)).unwrap();
    cluster.begin_to_move(slot, 0, 1);
    // A key that does not exist yet is created on the new node (ASK). An existing key stays.
    assert_eq!(a.send(&free, set(3)).unwrap(), AcquireReply::Acquired { server_time: None, fence: None });
    assert_eq!(
        cluster.servers[1].run_words::<Vec<String>>(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "9"]),
        std::slice::from_ref(&free)
    );
    for (key, token) in [(&held, 1), (&free, 3)] {
        assert!(matches!(a.send(key, renew(token)), Ok(RenewReply::Renewed { .. })), "{key}");
    }
    let error = a.send(&free, leave(3)).unwrap_err();
    assert_eq!(error.kind, Failure::Later, "{error}");
    cluster.servers[0].run::<()>("SCRIPT FLUSH");
    cluster.servers[1].run::<()>("SCRIPT FLUSH");
    cluster.move_keys(slot, 0, 1);
    for (key, token) in [(&held, 1), (&free, 3)] {
        assert!(matches!(a.send(key, renew(token)), Ok(RenewReply::Renewed { .. })), "{key}");
    }
    cluster.end_to_move(slot, 0, 1);
    assert_eq!(persist(&a, &free, &leave(3)).0, ReleaseReply::Released { gap: false });
    assert_eq!(persist(&a, &held, &leave(1)).0, ReleaseReply::Released { gap: false });
    granted(&b, 2);
    b.send(&held, leave(2)).unwrap();
    assert_eq!(cluster.keys(), Vec::<String>::new());
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
        let batch = keys
            .iter()
            .cloned()
            .zip((first..).map(|token| op::Acquire { mode: AcquireMode::Try, ..enter_as(kind, token) }));
        block_on(rig.backend.send_acquire_all(batch.collect()))
            .into_iter()
            .map(|reply| reply.unwrap())
            .collect()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let manager = runtime.block_on(LockManager::connect(cluster.url())).unwrap();
    for (kind, (from, to)) in [(LockKind::Exclusive, (0, 1)), (LockKind::Shared, (1, 0))] {
        assert!(matches!(
            b.send(&keys[1], enter_as(LockKind::Exclusive, 9)),
            Ok(AcquireReply::Acquired { .. })
        ));
        let replies = take(&a, kind, 1);
        assert!(
            matches!(
                &replies[..],
                [
                    BatchReply::Tried(AcquireReply::Acquired { .. }),
                    BatchReply::Tried(AcquireReply::Busy { .. }),
                    BatchReply::Skipped
                ]
            ),
            "{replies:?}"
        );
        a.send(&keys[0], leave(1)).unwrap();
        b.send(&keys[1], leave(9)).unwrap();
        let request = || match kind {
            LockKind::Shared => manager.lock_all(keys.iter().map(|key| &**key)).shared(),
            _ => manager.lock_all(keys.iter().map(|key| &**key)),
        };
        cluster.begin_to_move(slot, from, to);
        let meanwhile = runtime.spawn(request().wait(LONG).acquire());
        cluster.move_keys(slot, from, to);
        cluster.end_to_move(slot, from, to);
        runtime.block_on(async { meanwhile.await.unwrap().unwrap().release().await.unwrap() });
        let is_acquired = |reply: &BatchReply| reply.tried().is_some_and(AcquireReply::is_acquired);
        assert!(take(&a, kind, 11).iter().all(is_acquired));
        for (key, token) in keys.iter().zip(11..) {
            assert_eq!(a.send(key, leave(token)).unwrap(), ReleaseReply::Released { gap: false });
        }
    }
    runtime.block_on(manager.shutdown(Duration::from_secs(5)));
    wait_until("nothing is left", LONG, || cluster.keys().is_empty());
}

#[test]
fn a_shared_lease_is_renewed_unless_its_slot_has_moved_by_half() {
    let cluster = Cluster::start();
    let a = cluster.rig("a");
    let key = cluster.key_at(0);
    let slot = slot_of("", &key);
    let renew = renew_as(LockKind::Shared, 1);
    a.send(&key, enter_as(LockKind::Shared, 1)).unwrap();
    cluster.begin_to_move(slot, 0, 1);
    assert!(matches!(a.send(&key, renew), Ok(RenewReply::Renewed { .. })));
    let port = cluster.servers[1].port.to_string();
    cluster.servers[0].run_words::<()>(&["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"]);
    let error = a.send(&key, renew).unwrap_err();
    assert_eq!(error.kind, Failure::Later, "{error}");
    cluster.move_keys(slot, 0, 1);
    assert!(matches!(a.send(&key, renew), Ok(RenewReply::Renewed { .. })));
    cluster.end_to_move(slot, 0, 1);
    assert!(matches!(persist(&a, &key, &renew).0, RenewReply::Renewed { .. }));
    assert_eq!(persist(&a, &key, &leave(1)).0, ReleaseReply::Released { gap: false });
    assert_eq!(cluster.keys(), Vec::<String>::new());
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
    let rises = |what: &str, by: u64, count: &dyn Fn() -> u64| {
        let before = count();
        wait_until(what, LONG, || count() >= before + by);
    };
    let done = || sections.load(Ordering::SeqCst);
    let met = || scripts(&cluster.servers, "calls") + scripts(&cluster.servers, "rejected_calls");
    for round in 0..6 {
        let (from, to) = if round % 2 == 0 { (0, 1) } else { (1, 0) };
        rises("the sections go on", 50, &done);
        cluster.begin_to_move(slot, from, to);
        rises("scripts meet the slot while it moves", 5, &met);
        cluster.move_keys(slot, from, to);
        cluster.end_to_move(slot, from, to);
    }
    rises("the sections go on", 50, &done);
    stop.store(true, Ordering::SeqCst);
    let slowest = tasks.into_iter().map(|task| runtime.block_on(task).unwrap()).max().unwrap();
    eprintln!(
        "a slot moved 6 times under load: {} sections, 0 overlaps, slowest acquire {slowest:?}",
        done()
    );
    assert_eq!(overlaps.load(Ordering::SeqCst), 0);
    for manager in managers {
        runtime.block_on(manager.shutdown(Duration::from_secs(5)));
    }
    for key in cluster.keys() {
        assert!(key.starts_with("dl1:f{"), "residue: {key}");
    }
}
