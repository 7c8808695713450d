//! Members that die, and one that is cut off from the others.

use std::time::{Duration, Instant};

use distlock::LockManager;
use distlock_tests::{ZooKeeperServers, eventually, shared_clock, until_waiting};

use crate::{LONG, process};

#[tokio::test(flavor = "multi_thread")]
async fn another_leader_takes_nothing_from_anybody() {
    let mut servers = ZooKeeperServers::three();
    let (one, other) = (process(&servers, "30s").await, process(&servers, "30s").await);
    let guard = one.lock("k").ttl(LONG).fenced().acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("k").ttl(LONG).fenced().wait(LONG).acquire());
    until_waiting(&one, "k", 1).await;
    for _ in 0..2 {
        let leader = servers.leader();
        servers.kill9(leader);
        eventually("another one leads", async || (0..3).any(|it| it != leader && servers.leads(it))).await;
        let free = one.lock("free").wait(Duration::from_secs(30)).acquire().await.unwrap();
        free.release().await.unwrap();
        guard.check().unwrap();
        servers.restart(leader);
    }
    let first = guard.fencing_token().unwrap();
    guard.release().await.unwrap();
    let next = waiter.await.unwrap().unwrap();
    assert!(next.fencing_token().unwrap() > first);
    next.release().await.unwrap();
    servers.has_no_locks("/distlock");
}

/// A member answers pings, and reads, for a while after the leader has stopped to hear of its sessions.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_at_a_member_that_is_cut_off_hears_of_its_loss_before_another_one_gets_the_lock() {
    // The member notices after ten seconds; the leader ends the session after two.
    let servers = ZooKeeperServers::three_with_links(&["syncLimit=20"]);
    let first = format!("zookeeper://{}?session_timeout=2s", servers.address(0));
    let others = format!("zookeeper://{},{}?session_timeout=2s", servers.address(1), servers.address(2));
    let (cut_off, other) =
        (LockManager::connect(&first).await.unwrap(), LockManager::connect(&others).await.unwrap());
    let guard = cut_off.lock("k").ttl(LONG).fenced().acquire().await.unwrap();
    let waiter = tokio::spawn(async move {
        let guard = other.lock("k").ttl(LONG).fenced().wait(LONG).acquire().await.unwrap();
        (guard, shared_clock())
    });
    until_waiting(&cut_off, "k", 1).await;
    // Some heartbeats, so that none of what was said at the beginning counts.
    tokio::time::timeout(Duration::from_secs(5), guard.lost()).await.expect_err("all is well");
    servers.cut_off();
    guard.lost().await;
    let lost = shared_clock();
    let (next, entered) = tokio::time::timeout(Duration::from_secs(20), waiter).await.unwrap().unwrap();
    assert!(lost < entered, "lost {:?} after the other one had entered", lost.saturating_sub(entered));
    assert!(next.fencing_token().unwrap() > guard.fencing_token().unwrap());
    next.release().await.unwrap();
    servers.reunite();
    let again = cut_off.lock("k").wait(Duration::from_secs(60)).acquire().await.unwrap();
    again.release().await.unwrap();
    servers.has_no_locks("/distlock");
}

/// It answers pings and reads as before, and the leader does not hear of its sessions any more.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_leave_a_member_that_is_cut_off_and_keep_their_locks() {
    const SESSION: Duration = Duration::from_secs(8);
    // The member notices after thirty seconds.
    let servers = ZooKeeperServers::three_with_links(&["syncLimit=60"]);
    let mut holders = Vec::new();
    let mut at_first = 0;
    // Each goes to any member.
    while at_first < 2 || holders.len() < 6 {
        let before = servers.figure(0, "zk_num_alive_connections");
        let manager = process(&servers, "8s").await;
        at_first += servers.figure(0, "zk_num_alive_connections").saturating_sub(before);
        let key = format!("k{}", holders.len());
        let guard = manager.lock(&*key).ttl(LONG).fenced().acquire().await.unwrap();
        holders.push((manager, key, guard));
    }
    let other = process(&servers, "30s").await;
    let waiters: Vec<_> = holders
        .iter()
        .map(|(_, key, _)| tokio::spawn(other.lock(&**key).ttl(LONG).fenced().wait(LONG).acquire()))
        .collect();
    for (_, key, _) in &holders {
        until_waiting(&other, key, 1).await;
    }
    servers.cut_off();
    let start = Instant::now();
    // Longer than any of these sessions could last without an answer.
    while start.elapsed() < SESSION * 2 {
        for (_, key, guard) in &holders {
            guard.check().unwrap_or_else(|error| panic!("{key} after {:?}: {error}", start.elapsed()));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(servers.ask(0, "srvr").contains("Mode: follower"), "the member does not know yet");
    for ((manager, key, guard), waiter) in holders.into_iter().zip(waiters) {
        let first = guard.fencing_token().unwrap();
        guard.release().await.unwrap();
        let next = waiter.await.unwrap().unwrap();
        assert!(next.fencing_token().unwrap() > first);
        next.release().await.unwrap();
        manager.lock(&*key).wait(Duration::from_secs(30)).acquire().await.unwrap().release().await.unwrap();
    }
    servers.reunite();
    servers.has_no_locks("/distlock");
}
