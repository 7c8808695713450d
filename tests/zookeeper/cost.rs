//! The numbers of requests, watches and sessions.

use distlock_tests::{ZooKeeperServers, eventually};

use crate::zookeeper::{LONG, process};

/// The number of transactions that have written since the start of the server.
fn writes(servers: &ZooKeeperServers) -> u64 {
    let said = servers.ask(0, "srvr");
    let zxid = said.lines().find_map(|line| line.strip_prefix("Zxid: 0x")).unwrap();
    u64::from_str_radix(zxid.trim(), 16).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_costs_two_writes_and_its_hand_over_nothing_more() {
    let servers = ZooKeeperServers::one();
    let (one, other) = (process(&servers, "3600s").await, process(&servers, "3600s").await);
    one.lock("k").acquire().await.unwrap().release().await.unwrap();
    // The server may remove the node of the lock at any time between two sections.
    eventually("a section costs two writes", async || {
        let before = writes(&servers);
        one.lock("k").acquire().await.unwrap().release().await.unwrap();
        writes(&servers) - before == 2
    })
    .await;

    let guard = one.lock("k").ttl(LONG).acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("k").ttl(LONG).wait(LONG).acquire());
    // It has tried before it created its place.
    eventually("it waits", async || servers.figure(0, "zk_watch_count") == 1).await;
    let before = writes(&servers);
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(writes(&servers) - before, 2, "two releases");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_costs_one_write_and_no_waiter_loses_its_place() {
    let servers = ZooKeeperServers::one();
    let (one, other) = (process(&servers, "3600s").await, process(&servers, "3600s").await);
    let third = process(&servers, "3600s").await;
    let guard = one.lock("k").ttl(LONG).acquire().await.unwrap();
    let waiter = tokio::spawn(third.lock("k").ttl(LONG).wait(LONG).acquire());
    eventually("it waits", async || servers.figure(0, "zk_watch_count") == 1).await;
    let before = writes(&servers);
    let ticket = guard.hand_over().await.unwrap();
    assert_eq!(servers.figure(0, "zk_watch_count"), 2, "that of the first holder, on its place");
    let guard = other.take_over(&ticket).acquire().await.unwrap();
    assert_eq!(writes(&servers) - before, 1);
    eventually("it watches the new place", async || servers.figure(0, "zk_watch_count") == 1).await;
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    servers.has_no_locks("/distlock");
}

/// Each release fires one watch, for any length of the queue.
#[tokio::test(flavor = "multi_thread")]
async fn each_waiter_watches_one_place() {
    let servers = ZooKeeperServers::one();
    let mut processes = Vec::new();
    for _ in 0..6 {
        processes.push(process(&servers, "3600s").await);
    }
    let guard = processes[0].lock("k").ttl(LONG).acquire().await.unwrap();
    let mut waiters = Vec::new();
    for (behind, manager) in processes.iter().enumerate().skip(1) {
        let acquiring = manager.lock("k").ttl(LONG).wait(LONG).acquire();
        waiters.push(tokio::spawn(async move { acquiring.await.unwrap().release().await.unwrap() }));
        let behind = u64::try_from(behind).unwrap();
        eventually("it watches, too", async || servers.figure(0, "zk_watch_count") == behind).await;
    }
    // A waiter in the middle cancels. The waiter after it then watches the place before it, and no waiter enters.
    waiters.remove(2).abort();
    eventually("one less", async || servers.figure(0, "zk_watch_count") == 4).await;
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    guard.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    eventually("nobody watches", async || servers.figure(0, "zk_watch_count") == 0).await;
    servers.has_no_locks("/distlock");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_locks_live_with_one_session() {
    let servers = ZooKeeperServers::one();
    let manager = process(&servers, "3600s").await;
    let mut guards = Vec::new();
    for number in 0..200 {
        guards.push(manager.lock(format!("k{number}")).ttl(LONG).acquire().await.unwrap());
    }
    let ephemerals = servers.ephemerals();
    assert_eq!(ephemerals.len(), 1, "{:?}", ephemerals.keys());
    assert_eq!(servers.places("/distlock").len(), 200);
    for guard in guards {
        guard.release().await.unwrap();
    }
    servers.has_no_locks("/distlock");
}
