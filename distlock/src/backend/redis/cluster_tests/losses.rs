//! Lost nodes and connections.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::{enter, granted, leave, persist, renew, set};

use crate::backend::redis::test_cluster::{Cluster, MASTERS, REPLICA};
use crate::backend::redis::test_server::{LONG, Rig, Seen, TestServer, wait_until};
use crate::backend::redis::{ClusterBackend, RedisConfig};
use crate::backend::{
    AcquireMode, AcquireReply, EarlierCommands, Failure, LinkEvent, Notifications, Push, ReleaseReply,
    RenewReply, Token,
};

#[test]
fn a_killed_master_is_replaced_by_its_replica_and_the_others_serve_on() {
    let mut cluster = Cluster::start();
    let (a, b) = (cluster.rig("a"), cluster.rig("b"));
    let (lost, other) = (cluster.key_at(0), cluster.key_at(1));
    a.send(&lost, set(1)).unwrap();
    a.send(&other, set(2)).unwrap();
    b.send(&lost, enter(3, AcquireMode::Wait, 0)).unwrap();
    wait_until("the lock is replicated", LONG, || cluster.servers[REPLICA].keys().len() == 3);
    cluster.servers[0].kill();
    let start = Instant::now();
    assert!(matches!(a.send(&other, renew(2)), Ok(RenewReply::Renewed { .. })), "other masters go on");
    let (reply, _) = persist(&a, &lost, &renew(1));
    assert!(matches!(reply, RenewReply::Renewed { .. }), "{reply:?}");
    eprintln!("a master killed -9, cluster-node-timeout 1 s: {:?} until the next reply", start.elapsed());
    assert_eq!(a.wait_until_up().0, EarlierCommands::Ended);
    b.wait_until_up();
    wait_until("b listens", LONG, || {
        let listeners =
            cluster.servers[1..].iter().map(|server| server.client_ids(|line| line.contains("sub=1")).len());
        listeners.sum::<usize>() == 6
    });
    assert!(matches!(b.send(&lost, enter(3, AcquireMode::WaitAgain, 0)), Ok(AcquireReply::Busy { .. })));
    a.send(&lost, leave(1)).unwrap();
    granted(&b, 3);
    b.send(&lost, leave(3)).unwrap();
    // Each master finds out separately that every slot is served again, and refuses all commands until then.
    let (reply, _) = persist(&a, &other, &leave(2));
    assert!(matches!(reply, ReleaseReply::Released { .. }), "{reply:?}");
    for server in &cluster.servers[1..] {
        assert_eq!(server.keys().len(), 0, "no residue");
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
    assert_eq!(rig.wait_until_up().0, EarlierCommands::Ended, "the old link was killed on the server");
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
    assert!(matches!(persist(&rig, "k", &set(1)).0, AcquireReply::Acquired { .. }));
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
    // Nothing can arrive after these, because the messages of a node arrive in order.
    for at in 0..MASTERS {
        granted(at, 30 + at as u64);
    }
    let seen = rig.seen();
    let pushes = seen.iter().filter(|seen| matches!(seen, Seen::Push(_))).count();
    assert_eq!(pushes, 2 * MASTERS + 1, "{seen:?}");
    assert!(
        !seen.iter().any(|seen| matches!(seen, Seen::Link(LinkEvent::Notifications(Notifications::Off)))),
        "{seen:?}"
    );
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
        matches!(seen, Seen::Link(LinkEvent::Notifications(Notifications::Off))).then_some(())
    });
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
        // Longer than the period in which questions follow quickly.
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
            // If full coverage is required, each reply is CLUSTERDOWN.
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

#[test]
fn a_node_is_connected_again_after_a_panic_of_the_task_that_keeps_its_link() {
    let cluster = Cluster::start();
    let config = RedisConfig::new(&cluster.url(), "a").unwrap();
    let rig = Rig::run_with_a_panic(ClusterBackend::new(config).unwrap());
    rig.wait_until_up();
    for (token, at) in (1..).zip(0..MASTERS) {
        persist(&rig, &cluster.key_at(at), &set(token));
    }
}

/// After a panic, the driver calls `run` again.
#[test]
fn a_cluster_can_be_run_again() {
    let cluster = Cluster::start();
    let rig = cluster.rig("a");
    rig.send(&cluster.key_at(0), set(1)).unwrap();
    let backend = Arc::clone(&rig.backend);
    drop(rig);
    let rig = Rig::run(backend);
    rig.wait_until_up();
    assert_eq!(rig.send(&cluster.key_at(0), leave(1)).unwrap(), ReleaseReply::Released { gap: false });
}
