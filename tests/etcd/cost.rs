//! The numbers of requests and streams.

use std::time::Duration;

use distlock_tests::{EtcdServers, until_waiting};

use crate::etcd::{LONG, process, revision};

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_costs_two_writes_and_its_hand_over_nothing_more() {
    let servers = EtcdServers::one();
    let (one, other) = (process(&servers, "60s").await, process(&servers, "60s").await);
    let before = revision(&servers);
    one.lock("k").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(revision(&servers) - before, 2);

    let guard = one.lock("k").ttl(LONG).acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("k").ttl(LONG).wait(LONG).acquire());
    until_waiting(&one, "k", 1).await;
    let before = revision(&servers);
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    // Two releases. The waiter may have asked once more before its notification.
    let writes = revision(&servers) - before;
    assert!((2..=3).contains(&writes), "{writes} writes");
}

/// etcd keeps the names of deleted keys until it is compacted, and a request for a lock reads all names below the lock.
#[tokio::test(flavor = "multi_thread")]
async fn the_places_of_a_process_have_the_same_few_names() {
    const SECTIONS: usize = 8;
    let servers = EtcdServers::one();
    let processes = [process(&servers, "60s").await, process(&servers, "60s").await];
    let before = revision(&servers);
    let mut running = tokio::task::JoinSet::new();
    for manager in processes.iter().cycle().take(4) {
        let manager = manager.clone();
        running.spawn(async move {
            for _ in 0..SECTIONS {
                manager.lock("k").ttl(LONG).wait(LONG).acquire().await.unwrap().release().await.unwrap();
            }
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
    let mut names = std::collections::BTreeSet::new();
    for revision in before..=revision(&servers) {
        let rev = format!("--rev={revision}");
        let said = servers.ctl(&["get", "--prefix", "--keys-only", &rev, "distlock/locks/"]);
        names.extend(said.lines().filter(|line| !line.is_empty()).map(str::to_owned));
    }
    // A place that waits, and one that is being released.
    assert!((2..=4).contains(&names.len()), "{names:?}");
}

/// The key of a place that is kept, or that was handed over, is not that of the next place of the same process.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_takes_a_place_beside_one_that_it_no_longer_owns() {
    let servers = EtcdServers::one();
    let (one, other) = (process(&servers, "60s").await, process(&servers, "60s").await);
    one.lock("k").ttl(LONG).min_hold(LONG).acquire().await.unwrap().release().await.unwrap();
    assert!(one.lock("k").try_acquire().await.unwrap().is_none());
    let waiter = tokio::spawn(one.lock("k").ttl(LONG).wait(LONG).acquire());
    until_waiting(&other, "k", 1).await;
    assert!(other.force_release("k").await.unwrap());

    let ticket = waiter.await.unwrap().unwrap().hand_over().await.unwrap();
    let waiter = tokio::spawn(one.lock("k").ttl(LONG).wait(LONG).acquire());
    until_waiting(&other, "k", 1).await;
    let taken = other.take_over(&ticket).acquire().await.unwrap();
    until_waiting(&other, "k", 1).await;
    assert!(!waiter.is_finished() && taken.check().is_ok());
    taken.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    servers.has_no_locks("distlock/");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_costs_a_write_on_either_side_and_a_lease_and_no_waiter_loses_its_place() {
    let servers = EtcdServers::one();
    let (one, other) = (process(&servers, "60s").await, process(&servers, "60s").await);
    let third = process(&servers, "60s").await;
    let guard = one.lock("k").ttl(LONG).acquire().await.unwrap();
    let waiter = tokio::spawn(third.lock("k").ttl(LONG).wait(LONG).acquire());
    until_waiting(&one, "k", 1).await;
    let before = revision(&servers);
    let ticket = guard.hand_over().await.unwrap();
    let leases = servers.ctl(&["lease", "list"]);
    assert!(leases.contains("found 4 leases"), "three sessions and a ticket: {leases}");
    let guard = other.take_over(&ticket).acquire().await.unwrap();
    let writes = revision(&servers) - before;
    // The waiter may have asked once more meanwhile.
    assert!((2..=3).contains(&writes), "{writes} writes");
    until_waiting(&one, "k", 1).await;
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    servers.has_no_locks("distlock/");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_locks_hang_on_one_lease() {
    let servers = EtcdServers::one();
    let manager = process(&servers, "4s").await;
    let mut guards = Vec::new();
    for number in 0..200 {
        let guard = manager.lock(format!("k{number}")).ttl(Duration::from_secs(6)).acquire().await.unwrap();
        guards.push(guard);
    }
    let leases = servers.ctl(&["lease", "list"]);
    assert!(leases.contains("found 1 leases"), "{leases}");
    let before = revision(&servers);
    let start = std::time::Instant::now();
    distlock_tests::eventually("all were renewed", async || start.elapsed() > Duration::from_secs(8)).await;
    assert!(guards.iter().all(distlock::Guard::is_held));
    assert_eq!(revision(&servers), before, "renewals only read");
    for guard in guards {
        guard.release().await.unwrap();
    }
    servers.has_no_locks("distlock/");
}
