//! Readers, writers and semaphores in the queue of one key: which of them hold the lock together, and the cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use distlock::{Guard, LockError, LockManager, LockRequest};
use distlock_tests::{EtcdServers, eventually, until_waiting};
use tokio::task::JoinSet;

use crate::etcd::{LONG, transactions};

type As = fn(LockRequest) -> LockRequest;
const EXCLUSIVE: As = |request| request;
const SHARED: As = LockRequest::shared;
const TWO: As = |request| request.max_holders(2);
const MANY: As = |request| request.max_holders(100);

/// The number of sections of each process.
const SECTIONS: u64 = 4;

/// Starts this many managers, with the longest time-outs for a slow server.
async fn processes(servers: &EtcdServers, count: usize) -> Vec<LockManager> {
    let mut processes = Vec::new();
    for _ in 0..count {
        let url = format!("{}?session_timeout=60s&response_timeout=4s", servers.url());
        let builder = LockManager::builder().url(url).unavailable_after(LONG);
        processes.push(builder.connect().await.expect("the member answers"));
    }
    processes
}

/// Two managers.
async fn two(servers: &EtcdServers) -> [LockManager; 2] {
    processes(servers, 2).await.try_into().expect("two")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_section_that_does_not_wait_takes_two_requests_and_one_more_if_it_counts_others() {
    let servers = EtcdServers::one();
    let [one, other] = two(&servers).await;
    for (kind, beside, waits, expected) in [
        (EXCLUSIVE, false, false, 2),
        (SHARED, false, false, 2),
        (MANY, false, false, 2),
        (SHARED, true, false, 2),
        (SHARED, true, true, 2),
        (MANY, true, true, 2),
        (MANY, true, false, 3),
    ] {
        let held = if beside { Some(kind(one.lock("k").ttl(LONG)).acquire().await.unwrap()) } else { None };
        let before = transactions(&servers);
        let request = kind(other.lock("k").ttl(LONG));
        let request = if waits { request.wait(LONG) } else { request.no_wait() };
        request.acquire().await.unwrap().release().await.unwrap();
        assert_eq!(transactions(&servers) - before, expected, "beside another: {beside}, waits: {waits}");
        drop(held);
        servers.has_no_locks("distlock/");
    }
}

/// No waiter asks again after a release, because the next one is notified.
#[tokio::test(flavor = "multi_thread")]
async fn more_who_wait_ask_no_more_often() {
    let servers = EtcdServers::one();
    let managers = processes(&servers, 12).await;
    for kinds in [[SHARED, EXCLUSIVE], [TWO, TWO]] {
        for waiting in [4, 12] {
            let first = kinds[1](managers[0].lock("k").ttl(LONG)).acquire().await.unwrap();
            let (before, begin) = (transactions(&servers), Instant::now());
            let mut sections = JoinSet::new();
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
            let requests = transactions(&servers) - before;
            let sections = SECTIONS * u64::try_from(waiting).unwrap();
            println!("{sections} sections of {waiting} processes: {requests} requests");
            // Each waiter asks again every 2 s.
            let again = u64::try_from(waiting).unwrap() * (begin.elapsed().as_secs() / 2);
            assert!(requests <= 4 * sections + again, "{requests} requests for {sections} sections");
        }
    }
    servers.has_no_locks("distlock/");
}

/// Readers hold the lock together, before or after the writer.
#[tokio::test(flavor = "multi_thread")]
async fn a_writer_waits_for_the_readers_before_him_and_for_no_other() {
    let servers = EtcdServers::one();
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
    servers.has_no_locks("distlock/");
}

/// Each release grants the lock to one waiter, the oldest. A waiter that cancels grants it to no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_semaphore_lets_in_the_oldest_for_each_that_leaves() {
    let servers = EtcdServers::one();
    let managers = processes(&servers, 5).await;
    let request = |which: usize| managers[which].lock("k").max_holders(2).ttl(LONG).wait(LONG);
    let (first, second) = (request(0).acquire().await.unwrap(), request(1).acquire().await.unwrap());
    let mut waiting = Vec::new();
    for (which, count) in [(2, 1), (3, 2), (4, 3)] {
        waiting.push(tokio::spawn(request(which).acquire()));
        until_waiting(&managers[0], "k", count).await;
    }
    waiting.remove(0).abort();
    eventually("it has gone", async || managers[0].inspect("k").await.unwrap().unwrap().waiters == 2).await;
    assert!(waiting.iter().all(|waiter| !waiter.is_finished()));
    second.release().await.unwrap();
    let third = waiting.remove(0).await.unwrap().unwrap();
    assert!(!waiting[0].is_finished());
    let info = managers[0].inspect("k").await.unwrap().unwrap();
    assert_eq!((info.holders.len(), info.waiters), (2, 1), "{info:?}");
    first.release().await.unwrap();
    drop((third, waiting.remove(0).await.unwrap().unwrap()));
    servers.has_no_locks("distlock/");
}

/// A request that does not wait counts the places before it takes one. Requests that count at the same time must not
/// both get the last place.
#[tokio::test(flavor = "multi_thread")]
async fn no_more_than_the_limit_get_in_who_do_not_wait() {
    const LIMIT: usize = 3;
    let servers = EtcdServers::one();
    let (inside, entered) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut trying = JoinSet::new();
    for manager in processes(&servers, 6).await {
        let (inside, entered) = (inside.clone(), entered.clone());
        trying.spawn(async move {
            while entered.load(Ordering::SeqCst) < 150 {
                let request = manager.lock("k").max_holders(3).ttl(LONG);
                let guard = match request.try_acquire().await {
                    Ok(Some(guard)) => guard,
                    Ok(None) => continue,
                    // On a slow machine, the others may have come and gone too often during its requests.
                    Err(LockError::Unavailable { source, .. })
                        if source.to_string().contains("others come and go faster") =>
                    {
                        continue;
                    }
                    Err(error) => panic!("{error}"),
                };
                let others = inside.fetch_add(1, Ordering::SeqCst);
                assert!(others < LIMIT, "beside {others} others");
                entered.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(ended) = trying.join_next().await {
        ended.unwrap();
    }
    servers.has_no_locks("distlock/");
}

/// The place stays taken with a separate lease, and counts like any holder of its kind.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_is_of_the_kind_that_it_was() {
    let servers = EtcdServers::one();
    let [one, other] = two(&servers).await;
    for kind in [SHARED, TWO] {
        let kept = kind(one.lock("k").ttl(LONG).min_hold(LONG)).acquire().await.unwrap();
        kept.release().await.unwrap();
        let beside = kind(other.lock("k").ttl(LONG)).no_wait().acquire().await.unwrap();
        let kept = one.inspect("k").await.unwrap().unwrap().holder;
        assert!(kept.starts_with("dl1:hold"), "{kept}");
        one.force_release_from("k", &kept).await.unwrap();
        beside.check().unwrap();
        let info = one.inspect("k").await.unwrap().unwrap();
        assert_eq!(info.holders.len(), 1, "{info:?}");
        beside.release().await.unwrap();
        servers.has_no_locks("distlock/");
    }
}

/// A program of version 0.1.0 knows only exclusive places. It waits for all places, and all others wait for its place.
#[tokio::test(flavor = "multi_thread")]
async fn places_of_an_earlier_version_exclude_all_kinds() {
    let servers = EtcdServers::one();
    let [manager, _] = two(&servers).await;
    for kind in [SHARED, TWO] {
        servers.ctl(&["put", "distlock/locks/k/dl1:earlier.1:1", "x"]);
        let error = kind(manager.lock("k")).no_wait().acquire().await.unwrap_err();
        assert!(error.is_busy() || matches!(error, distlock::LockError::WrongKind { .. }), "{error:?}");
        servers.ctl(&["del", "distlock/locks/k/dl1:earlier.1:1"]);
        let held = kind(manager.lock("k").ttl(Duration::from_secs(60))).acquire().await.unwrap();
        servers.ctl(&["put", "distlock/locks/k/dl1:earlier.1:2", "x"]);
        let info = manager.inspect("k").await.unwrap().unwrap();
        assert_eq!((info.holders.len(), info.waiters), (1, 1), "{info:?}");
        held.check().unwrap();
        servers.ctl(&["del", "distlock/locks/k/dl1:earlier.1:2"]);
        held.release().await.unwrap();
    }
}
