//! A caller drops its future at each of its await points. No lock stays, although the ttl is long.

use distlock::{LockError, LockManager, distributed_lock};
use distlock_tests::{Backend, drop_after, until_nobody_waits};

use super::LONG;

distlock_tests::suite![
    an_acquire_may_be_dropped_anywhere,
    a_waiting_acquire_may_be_dropped_anywhere,
    a_run_may_be_dropped_anywhere,
    an_annotated_call_may_be_dropped_anywhere,
    a_release_may_be_dropped_anywhere,
    an_acquire_that_is_never_polled_does_nothing,
];

/// More polls than any of these futures needs.
const MANY: usize = 200;

/// Drops the future after one poll, two polls, …, until it finishes first. After that, no lock may be left.
async fn at_every_await_point<F: Future>(backend: &Backend, mut make: impl FnMut() -> F) {
    for polls in 1..MANY {
        let finished = drop_after(polls, make()).await.is_some();
        backend.is_clean("k").await;
        if finished {
            return;
        }
    }
    panic!("not finished after {MANY} polls");
}

async fn an_acquire_may_be_dropped_anywhere(backend: Backend) {
    let manager = backend.manager().await;
    at_every_await_point(&backend, || manager.lock("k").ttl(LONG).acquire()).await;
    at_every_await_point(&backend, || manager.lock("k").ttl(LONG).fenced().acquire()).await;
}

async fn a_waiting_acquire_may_be_dropped_anywhere(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    for polls in 1..6 {
        let guard = one.lock("k").ttl(LONG).acquire().await.unwrap();
        let waiting = drop_after(polls, other.lock("k").ttl(LONG).wait(LONG).acquire());
        // A future that is not woken is not polled, so it is dropped after this time.
        let waiting = tokio::time::timeout(std::time::Duration::from_millis(100), waiting).await;
        assert!(!matches!(waiting, Ok(Some(_))), "{waiting:?}");
        until_nobody_waits(&one, "k").await;
        guard.release().await.unwrap();
        backend.is_clean("k").await;
    }
}

async fn a_run_may_be_dropped_anywhere(backend: Backend) {
    let manager = backend.manager().await;
    at_every_await_point(&backend, || {
        manager.lock("k").ttl(LONG).run(async |_| tokio::task::yield_now().await)
    })
    .await;
}

#[distributed_lock(key = key, ttl = "10m", manager = locks)]
async fn annotated(locks: LockManager, key: &'static str) -> Result<(), LockError> {
    tokio::task::yield_now().await;
    Ok(())
}

async fn an_annotated_call_may_be_dropped_anywhere(backend: Backend) {
    let manager = backend.manager().await;
    at_every_await_point(&backend, || annotated(manager.clone(), "k")).await;
}

async fn a_release_may_be_dropped_anywhere(backend: Backend) {
    let manager = backend.manager().await;
    for polls in 0..MANY {
        let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
        let finished = drop_after(polls, guard.release()).await.is_some();
        backend.is_clean("k").await;
        if finished {
            return;
        }
    }
    panic!("not finished after {MANY} polls");
}

async fn an_acquire_that_is_never_polled_does_nothing(backend: Backend) {
    let manager = backend.manager().await;
    drop(manager.lock("k").acquire());
    backend.is_clean("k").await;
}
