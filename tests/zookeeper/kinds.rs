//! Readers, writers and semaphores in the queue of one key: which of them hold the lock together, and the cost.

use distlock::{Guard, LockError, LockManager, LockRequest};
use distlock_tests::{ZooKeeperServers, eventually, until_waiting};
use tokio::task::JoinSet;
use zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::zookeeper::{LONG, process};

type As = fn(LockRequest) -> LockRequest;
const EXCLUSIVE: As = |request| request;
const SHARED: As = LockRequest::shared;
const TWO: As = |request| request.max_holders(2);
const MANY: As = |request| request.max_holders(100);

/// The number of sections of each process.
const SECTIONS: u64 = 4;

async fn processes(servers: &ZooKeeperServers, count: usize) -> Vec<LockManager> {
    let mut processes = Vec::new();
    for _ in 0..count {
        processes.push(process(servers, "3600s").await);
    }
    processes
}

/// The number of requests to the server, without the one of this function.
fn requests(servers: &ZooKeeperServers) -> u64 {
    servers.figure(0, "zk_packets_received")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_section_takes_two_requests_and_one_more_beside_others() {
    let servers = ZooKeeperServers::one();
    let [one, other] = processes(&servers, 2).await.try_into().expect("two");
    let question = requests(&servers);
    let question = requests(&servers) - question;
    for (kind, beside) in [(EXCLUSIVE, false), (SHARED, false), (MANY, false), (SHARED, true), (MANY, true)] {
        let held = if beside { Some(kind(one.lock("k").ttl(LONG)).acquire().await.unwrap()) } else { None };
        let expected = if beside { 3 } else { 2 };
        // The server may remove the node of the lock at any time between two sections, and it counts heartbeats.
        eventually("a section costs as many requests", async || {
            let before = requests(&servers);
            kind(other.lock("k").ttl(LONG)).no_wait().acquire().await.unwrap().release().await.unwrap();
            let requests = requests(&servers) - before - question;
            assert!(requests >= expected, "{requests}");
            requests == expected
        })
        .await;
        drop(held);
        servers.has_no_locks("/distlock");
    }
}

/// A waiter watches one place. A waiter for a semaphore watches as many places as there are holders.
#[tokio::test(flavor = "multi_thread")]
async fn more_who_wait_ask_no_more_often() {
    let servers = ZooKeeperServers::one();
    let managers = processes(&servers, 24).await;
    for (kinds, most) in [([EXCLUSIVE, EXCLUSIVE], 6), ([SHARED, EXCLUSIVE], 8), ([TWO, TWO], 12)] {
        for waiting in [4, 12, 24] {
            let first = kinds[1](managers[0].lock("k").ttl(LONG)).acquire().await.unwrap();
            let (before, mut sections) = (requests(&servers), JoinSet::new());
            for (number, manager) in managers.iter().take(waiting).enumerate() {
                let (manager, kind) = (manager.clone(), kinds[number % 2]);
                sections.spawn(async move {
                    for _ in 0..SECTIONS {
                        let request = kind(manager.lock("k").ttl(LONG).wait(LONG));
                        request.acquire().await.unwrap().release().await.unwrap();
                    }
                });
            }
            first.release().await.unwrap();
            while let Some(ended) = sections.join_next().await {
                ended.unwrap();
            }
            let requests = requests(&servers) - before;
            let sections = SECTIONS * u64::try_from(waiting).unwrap();
            println!("{sections} sections of {waiting} processes: {requests} requests");
            assert!(requests <= most * sections, "{requests} requests for {sections} sections");
        }
    }
    eventually("nobody watches", async || servers.figure(0, "zk_watch_count") == 0).await;
    servers.has_no_locks("/distlock");
}

/// Readers hold the lock together, before or after the writer.
#[tokio::test(flavor = "multi_thread")]
async fn a_writer_waits_for_the_readers_before_him_and_for_no_other() {
    let servers = ZooKeeperServers::one();
    let managers = processes(&servers, 5).await;
    let read = |which: usize| managers[which].lock("k").shared().ttl(LONG).wait(LONG);
    let (first, second) = (read(0).acquire().await.unwrap(), read(1).acquire().await.unwrap());
    let writer = tokio::spawn(managers[2].lock("k").fenced().ttl(LONG).wait(LONG).acquire());
    until_waiting(&managers[0], "k", 1).await;
    assert!(managers[3].lock("k").shared().try_acquire().await.unwrap().is_none(), "past a writer");
    let mut readers = JoinSet::new();
    for (which, waiting) in [(3, 2), (4, 3)] {
        readers.spawn(read(which).acquire());
        until_waiting(&managers[0], "k", waiting).await;
    }
    eventually("each watches one place", async || servers.figure(0, "zk_watch_count") == 3).await;
    first.release().await.unwrap();
    assert!(!writer.is_finished());
    second.release().await.unwrap();
    let writer = writer.await.unwrap().unwrap();
    let info = managers[0].inspect("k").await.unwrap().unwrap();
    assert_eq!((info.holders.len(), info.waiters), (1, 2), "{info:?}");
    writer.release().await.unwrap();
    let mut together: Vec<Guard> = Vec::new();
    while let Some(reader) = readers.join_next().await {
        together.push(reader.unwrap().unwrap());
    }
    let info = managers[0].inspect("k").await.unwrap().unwrap();
    assert_eq!((info.holders.len(), info.waiters), (2, 0), "{info:?}");
    drop(together);
    servers.has_no_locks("/distlock");
}

/// Each release grants the lock to one waiter, the oldest. A waiter that cancels grants it to no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_semaphore_lets_in_the_oldest_for_each_that_leaves() {
    let servers = ZooKeeperServers::one();
    let managers = processes(&servers, 6).await;
    let request = |which: usize| managers[which].lock("k").max_holders(2).ttl(LONG).wait(LONG);
    let (first, second) = (request(0).acquire().await.unwrap(), request(1).acquire().await.unwrap());
    let mut waiting = Vec::new();
    for (which, count) in [(2, 1), (3, 2), (4, 3), (5, 4)] {
        waiting.push(tokio::spawn(request(which).acquire()));
        until_waiting(&managers[0], "k", count).await;
    }
    eventually("each watches two places", async || servers.figure(0, "zk_watch_count") == 8).await;
    waiting.remove(0).abort();
    eventually("each watches two of those left", async || {
        managers[0].inspect("k").await.unwrap().unwrap().waiters == 3
            && servers.figure(0, "zk_watch_count") == 6
    })
    .await;
    assert!(waiting.iter().all(|waiter| !waiter.is_finished()));
    second.release().await.unwrap();
    let third = waiting.remove(0).await.unwrap().unwrap();
    assert!(waiting.iter().all(|waiter| !waiter.is_finished()));
    let info = managers[0].inspect("k").await.unwrap().unwrap();
    assert_eq!((info.holders.len(), info.waiters), (2, 2), "{info:?}");
    third.release().await.unwrap();
    let fourth = waiting.remove(0).await.unwrap().unwrap();
    first.release().await.unwrap();
    drop((fourth, waiting.remove(0).await.unwrap().unwrap()));
    servers.has_no_locks("/distlock");
    eventually("nobody watches", async || servers.figure(0, "zk_watch_count") == 0).await;
}

/// A program of version 0.1.0 knows only exclusive places. It waits for all places, and all others wait for its place.
/// A place of a kind that is not compatible with the others is deleted as soon as its owner has seen them. Until then,
/// no other request relies on it.
#[tokio::test(flavor = "multi_thread")]
async fn places_that_others_have_put_there_let_nobody_in() {
    let servers = ZooKeeperServers::one();
    let manager = process(&servers, "3600s").await;
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
    let other = Client::connect(&servers.address(0)).await.unwrap();
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let put = async |kind: &str| {
        let path = format!("/distlock/locks/k/dl1:earlier.1:1-1f{kind}-");
        loop {
            match other.create(&path, b"", &options).await {
                Ok((_, number)) => return format!("{path}{number}"),
                // The server deletes the node of a key every minute, if it is empty.
                Err(Error::NoNode) => manager.lock("k").acquire().await.unwrap().release().await.unwrap(),
                Err(error) => panic!("{error}"),
            }
        }
    };
    for kind in [SHARED, TWO] {
        let before = put("").await;
        let error = kind(manager.lock("k")).no_wait().acquire().await.unwrap_err();
        assert!(error.is_busy() || matches!(error, LockError::WrongKind { .. }), "{error:?}");
        other.delete(&before, None).await.unwrap();
        let held = kind(manager.lock("k").ttl(LONG)).acquire().await.unwrap();
        let behind = put("").await;
        let info = manager.inspect("k").await.unwrap().unwrap();
        assert_eq!((info.holders.len(), info.waiters), (1, 1), "{info:?}");
        held.check().unwrap();
        other.delete(&behind, None).await.unwrap();
        held.release().await.unwrap();
    }

    let held = TWO(manager.lock("k").ttl(LONG)).acquire().await.unwrap();
    let wrong = put(".shared").await;
    let error = SHARED(manager.lock("k")).no_wait().acquire().await.unwrap_err();
    assert!(matches!(error, LockError::WrongKind { .. }), "{error:?}");
    let second = tokio::spawn(TWO(manager.lock("k").ttl(LONG)).wait(LONG).acquire());
    eventually("it asks again and again", async || servers.places("/distlock").len() == 3).await;
    assert!(!second.is_finished());
    other.delete(&wrong, None).await.unwrap();
    drop((held, second.await.unwrap().unwrap()));
    servers.has_no_locks("/distlock");
}
