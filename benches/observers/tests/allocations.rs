//! Observers allocate nothing for a lock. A reader of events copies their names. The test has a separate process,
//! because allocations of all threads are counted.

#![allow(clippy::unwrap_used)]

use std::alloc::System;

use distlock_benches_observers::{Locks, Observed, install};
use distlock_fixtures::RedisServer;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const LOCKS: usize = 1_000;

/// The maximum number of allocations for a lock on Redis, acquired and released, in all of the library's threads. One
/// of them lets the I/O thread take over a command whose caller is no longer polled.
const MOST_ON_REDIS: usize = 12;

async fn allocations(url: &str, observed: Observed) -> usize {
    let mut locks = Locks::new(url, observed).unwrap();
    // The first locks create series, queues and maps.
    for _ in 0..LOCKS {
        locks.lock().await.unwrap();
    }
    let region = Region::new(ALLOCATOR);
    for _ in 0..LOCKS {
        locks.lock().await.unwrap();
    }
    region.change().allocations
}

/// The median over the locks, because on a slow machine, the I/O thread takes over many commands.
async fn usual(url: &str) -> usize {
    let mut locks = Locks::new(url, Observed::Not).unwrap();
    for _ in 0..LOCKS {
        locks.lock().await.unwrap();
    }
    let mut each = [0; LOCKS];
    for needed in &mut each {
        let region = Region::new(ALLOCATOR);
        locks.lock().await.unwrap();
        *needed = region.change().allocations;
    }
    each.sort_unstable();
    each[LOCKS / 2]
}

/// One test, because the allocations of a concurrent test would be counted, too.
#[tokio::test]
async fn observers_allocate_nothing_for_a_lock_and_redis_little() {
    install();
    let off = allocations("memory:", Observed::Not).await;
    assert!(off >= LOCKS, "a lock itself allocates, and the count sees it: {off}");
    let on = allocations("memory:", Observed::ByMetrics).await;
    assert!(on.abs_diff(off) < LOCKS / 100, "metrics: {on} instead of {off} for {LOCKS} locks");
    // The reader gets two events for each lock, each with its own copy of the label and the key.
    let read = 4 * LOCKS;
    let on = allocations("memory:", Observed::ByMetricsAndReader).await;
    assert!(
        on.abs_diff(off + read) < LOCKS / 100,
        "events: {on} instead of {off} + {read} for {LOCKS} locks"
    );
    let server = RedisServer::start();
    let on_redis = usual(&server.url()).await;
    assert!(on_redis <= MOST_ON_REDIS, "on Redis: {on_redis} for a lock");
}
