//! Members that die, and a member that is cut off from the others.

use distlock::LockManager;
use distlock_tests::{BOUND, ZooKeeperServers, eventually, until_renewed, until_waiting};

use crate::zookeeper::{LONG, process};

#[tokio::test(flavor = "multi_thread")]
async fn another_leader_takes_nothing_from_anybody() {
    let mut servers = ZooKeeperServers::three();
    let (one, other) = (process(&servers, "120s").await, process(&servers, "120s").await);
    let guard = one.lock("k").ttl(LONG).fenced().acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("k").ttl(LONG).fenced().wait(LONG).acquire());
    until_waiting(&one, "k", 1).await;
    for _ in 0..2 {
        let leader = servers.leader();
        servers.kill9(leader);
        eventually("another one leads", async || (0..3).any(|it| it != leader && servers.leads(it))).await;
        let free = one.lock("free").wait(LONG).acquire().await.unwrap();
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

/// A member still replies to pings and reads for a while after the leader no longer receives reports about its
/// sessions.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_at_a_member_that_is_cut_off_hears_of_its_loss_before_another_one_gets_the_lock() {
    // The member notices after a minute, but the leader ends the session after eight seconds.
    let servers = ZooKeeperServers::three_with_links(&["syncLimit=120"]);
    let first = format!("zookeeper://{}?session_timeout=8s", servers.address(0));
    let others = format!("zookeeper://{},{}?session_timeout=60s", servers.address(1), servers.address(2));
    let (cut_off, other) =
        (LockManager::connect(&first).await.unwrap(), LockManager::connect(&others).await.unwrap());
    let guard = cut_off.lock("k").ttl(LONG).fenced().acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("k").ttl(LONG).fenced().wait(LONG).acquire());
    until_waiting(&cut_off, "k", 1).await;
    // After some heartbeats, the replies from the beginning no longer count.
    for _ in 0..2 {
        until_renewed(&guard).await;
    }
    servers.cut_off();
    let next = tokio::time::timeout(BOUND, waiter).await.unwrap().unwrap().unwrap();
    assert!(!guard.is_held(), "for another {:?} after the other one has entered", guard.remaining());
    guard.lost().await;
    assert!(next.fencing_token().unwrap() > guard.fencing_token().unwrap());
    next.release().await.unwrap();
    servers.reunite();
    let again = cut_off.lock("k").wait(LONG).acquire().await.unwrap();
    again.release().await.unwrap();
    servers.has_no_locks("/distlock");
}

/// The member closes its connections when it has received nothing from the leader for `syncLimit` ticks, here two
/// seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_outlives_a_member_that_is_cut_off_if_the_session_outlives_the_member() {
    let servers = ZooKeeperServers::three_with_links(&["syncLimit=4"]);
    let url = format!("{}?session_timeout=40s", servers.url());
    let at_the_first = || servers.figure(0, "zk_num_alive_connections");
    // Connects until one of the managers uses the first member.
    let mut elsewhere = Vec::new();
    let alone = at_the_first();
    let cut_off = loop {
        let manager = LockManager::connect(&url).await.unwrap();
        if at_the_first() > alone {
            break manager;
        }
        elsewhere.push(manager);
    };
    let guard = cut_off.lock("k").ttl(LONG).fenced().acquire().await.unwrap();
    servers.cut_off();
    let moved = async || cut_off.lock("other").wait(LONG).acquire().await.unwrap().release().await.unwrap();
    tokio::time::timeout(BOUND, moved()).await.expect("it is served by another member");
    guard.check().unwrap();
    let token = guard.fencing_token().unwrap();
    guard.release().await.unwrap();
    let next = cut_off.lock("k").ttl(LONG).fenced().acquire().await.unwrap();
    assert!(next.fencing_token().unwrap() > token);
    next.release().await.unwrap();
    servers.reunite();
}
