//! A new leader, and a compacted history.

use std::time::Duration;

use distlock::LockError;
use distlock_tests::{BOUND, EtcdServers, eventually, until_waiting};

use crate::etcd::{LONG, process};

#[tokio::test(flavor = "multi_thread")]
async fn another_leader_takes_nothing_from_anybody() {
    let servers = EtcdServers::three();
    let (one, other) = (process(&servers, "60s").await, process(&servers, "60s").await);
    let guard = one.lock("k").ttl(LONG).fenced().acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("k").ttl(LONG).fenced().wait(LONG).acquire());
    until_waiting(&one, "k", 1).await;
    for _ in 0..3 {
        let (leader, next) = (servers.leader(), (servers.leader() + 1) % 3);
        let status = servers.ctl_of(next, &["endpoint", "status"]);
        let id = status.split(", ").nth(1).unwrap().to_owned();
        servers.ctl_of(leader, &["move-leader", &id]);
        eventually("another one leads", async || servers.leads(next)).await;
        guard.check().unwrap();
        let free = one.lock("free").wait(LONG).acquire().await.unwrap();
        free.release().await.unwrap();
    }
    let first = guard.fencing_token().unwrap();
    guard.release().await.unwrap();
    let next = waiter.await.unwrap().unwrap();
    assert!(next.fencing_token().unwrap() > first);
    next.release().await.unwrap();
    servers.has_no_locks("distlock/");
}

#[tokio::test(flavor = "multi_thread")]
async fn compaction_does_not_keep_a_waiter_asleep() {
    let servers = EtcdServers::one();
    let (one, other) = (process(&servers, "60s").await, process(&servers, "60s").await);
    let mut last = 0;
    for round in 0..5 {
        let guard = one.lock("k").fenced().acquire().await.unwrap();
        let waiter = tokio::spawn(other.lock("k").fenced().wait(LONG).acquire());
        until_waiting(&one, "k", 1).await;
        let status = servers.ctl(&["put", "elsewhere", "x", "-w", "fields"]);
        let revision = status.lines().find_map(|line| line.strip_prefix("\"Revision\" : ")).unwrap();
        servers.ctl(&["compact", "--physical", revision]);
        guard.release().await.unwrap();
        let next = waiter.await.unwrap().unwrap();
        let fence = next.fencing_token().unwrap().get();
        assert!(fence > last, "round {round}: {fence} after {last}");
        last = fence;
        next.release().await.unwrap();
    }
    servers.has_no_locks("distlock/");
}

/// A leader is stopped for longer than the session. Whatever it does when it resumes, a holder soon notices a loss.
/// (Members before 3.4.31 then end sessions that another leader has kept alive.)
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_notices_what_a_former_leader_does() {
    let servers = EtcdServers::three();
    let (one, other) = (process(&servers, "12s").await, process(&servers, "12s").await);
    let leader = servers.leader();
    let guard = one.lock("k").ttl(LONG).fenced().acquire().await.unwrap();
    let mut waiter = tokio::spawn(other.lock("k").ttl(LONG).fenced().wait(LONG).acquire());
    until_waiting(&one, "k", 1).await;
    servers.stop(leader);
    let start = std::time::Instant::now();
    eventually("the session would have ended", async || start.elapsed() > Duration::from_secs(15)).await;
    let first = guard.fencing_token().unwrap();
    guard.check().expect("the session was kept alive by the next leader");
    assert!(!waiter.is_finished());
    servers.cont(leader);
    let next = tokio::select! {
        next = &mut waiter => {
            let lost = tokio::time::timeout(BOUND, guard.lost()).await;
            lost.expect("the session has ended, and its holder does not notice it");
            next
        }
        // If the session does not end, the server does not have the defect.
        () = tokio::time::sleep(Duration::from_secs(3)) => {
            // It may have ended since.
            let released = guard.release().await;
            assert!(released.as_ref().map_or_else(LockError::is_lost, |()| true), "{released:?}");
            waiter.await
        }
    };
    let next = next.unwrap().unwrap();
    assert!(next.fencing_token().unwrap() > first);
    next.release().await.unwrap();
    servers.has_no_locks("distlock/");
}
