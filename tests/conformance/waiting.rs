//! How long a request waits, and what it says when that was in vain.

use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use distlock::{LockError, LockManager, Retry};
use distlock_tests::{Backend, eventually, until_waiting};

distlock_tests::suite![
    try_acquire_of_a_busy_key_is_none_at_once,
    no_wait_is_busy_at_once,
    a_wait_ends_busy_and_says_for_what_and_how_long,
    a_waiter_gets_the_lock_when_it_is_released,
    try_acquire_with_a_wait_waits,
    wait_forever_outlives_the_default_wait,
    retries_are_so_many_further_attempts,
    a_retry_gets_a_lock_that_became_free,
    every_waiter_gets_its_turn,
    a_lock_that_nobody_picks_up_is_passed_on_when_its_ttl_is_over,
    a_request_that_was_not_polled_in_time_says_that_nothing_was_run,
    more_waiters_than_are_allowed_are_turned_away_at_once,
];

/// Shorter than any wait below, longer than any attempt takes on a loaded machine.
const AT_ONCE: Duration = Duration::from_secs(5);

async fn try_acquire_of_a_busy_key_is_none_at_once(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let _guard = one.lock("k").acquire().await.unwrap();
    let start = Instant::now();
    assert!(other.lock("k").try_acquire().await.unwrap().is_none());
    assert!(start.elapsed() < AT_ONCE);
}

async fn no_wait_is_busy_at_once(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let _guard = one.lock("k").acquire().await.unwrap();
    for request in [other.lock("k").no_wait(), other.lock("k").wait(Duration::ZERO)] {
        let start = Instant::now();
        let error = request.acquire().await.unwrap_err();
        let LockError::Busy { waited, .. } = &error else { panic!("{error:?}") };
        assert!(waited.is_zero() && !error.to_string().contains("waited"), "it did not wait: {error}");
        assert!(start.elapsed() < AT_ONCE);
    }
}

async fn a_wait_ends_busy_and_says_for_what_and_how_long(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let _guard = one.lock("order:42").acquire().await.unwrap();
    let wait = Duration::from_millis(300);
    let error = other.lock("order:42").wait(wait).acquire().await.unwrap_err();
    let LockError::Busy { waited, .. } = &error else { panic!("{error:?}") };
    assert!(*waited >= wait && *waited < wait + AT_ONCE, "{waited:?}");
    assert!(error.to_string().contains("order:42"), "{error}");
}

async fn a_waiter_gets_the_lock_when_it_is_released(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let guard = one.lock("k").acquire().await.unwrap();
    let waiter = tokio::spawn(async move { other.lock("k").wait(Duration::from_secs(60)).acquire().await });
    until_waiting(&one, "k", 1).await;
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    backend.is_clean("k").await;
}

async fn try_acquire_with_a_wait_waits(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let guard = one.lock("k").acquire().await.unwrap();
    let wait = Duration::from_millis(300);
    let start = Instant::now();
    assert!(other.lock("k").wait(wait).try_acquire().await.unwrap().is_none());
    assert!(start.elapsed() >= wait);
    guard.release().await.unwrap();
    assert!(other.lock("k").wait(wait).try_acquire().await.unwrap().is_some());
}

async fn wait_forever_outlives_the_default_wait(backend: Backend) {
    let manager = match backend.builder() {
        Some(builder) => builder.default_wait(Duration::from_millis(50)).connect().await.unwrap(),
        None => backend.manager().await,
    };
    let guard = manager.lock("k").acquire().await.unwrap();
    let other = manager.clone();
    let waiter = tokio::spawn(async move { other.lock("k").wait_forever().acquire().await });
    if !backend.is_memory() {
        assert!(manager.lock("k").acquire().await.unwrap_err().is_busy());
        assert!(!waiter.is_finished());
    }
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

async fn retries_are_so_many_further_attempts(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let _guard = one.lock("k").acquire().await.unwrap();
    let delay = Duration::from_millis(100);
    let start = Instant::now();
    let error = other.lock("k").retry(Retry::times(4).delay(delay)).acquire().await.unwrap_err();
    assert!(error.is_busy(), "{error:?}");
    // Four delays of at least half of 100 ms.
    assert!(start.elapsed() >= delay * 2, "{:?}", start.elapsed());
    assert!(start.elapsed() < AT_ONCE);
}

async fn a_retry_gets_a_lock_that_became_free(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let guard = one.lock("k").acquire().await.unwrap();
    let retry = Retry::times(1000).delay(Duration::from_millis(20));
    let retrying = tokio::spawn(async move { other.lock("k").retry(retry).acquire().await });
    guard.release().await.unwrap();
    retrying.await.unwrap().unwrap().release().await.unwrap();
    backend.is_clean("k").await;
}

async fn every_waiter_gets_its_turn(backend: Backend) {
    let managers = [backend.manager().await, backend.manager().await];
    let guard = managers[0].lock("k").acquire().await.unwrap();
    let mut waiters = tokio::task::JoinSet::new();
    for manager in managers.iter().cycle().take(40) {
        let manager = manager.clone();
        waiters.spawn(async move {
            let guard = manager.lock("k").wait(Duration::from_secs(60)).acquire().await.unwrap();
            guard.release().await.unwrap();
        });
    }
    guard.release().await.unwrap();
    while let Some(waiter) = waiters.join_next().await {
        waiter.unwrap();
    }
    backend.is_clean("k").await;
}

/// Polled until it waits for `k`, which `other` holds; then no more.
async fn until_it_waits<F: Future>(request: Pin<&mut F>, other: &LockManager) {
    tokio::select! {
        biased;
        _ = request => panic!("the lock is held"),
        () = until_waiting(other, "k", 1) => {}
    }
}

async fn a_lock_that_nobody_picks_up_is_passed_on_when_its_ttl_is_over(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let busy = other.lock("k").acquire().await.unwrap();
    let request = one.lock("k").ttl(Duration::from_secs(1)).wait(Duration::from_secs(600)).acquire();
    let mut request = pin!(request);
    until_it_waits(request.as_mut(), &other).await;
    busy.release().await.unwrap();
    for manager in [&one, &other] {
        let next = manager.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap();
        next.release().await.unwrap();
    }
    // It goes on waiting, and gets the lock.
    request.await.unwrap().release().await.unwrap();
    backend.is_clean("k").await;
}

async fn a_request_that_was_not_polled_in_time_says_that_nothing_was_run(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let busy = other.lock("k").acquire().await.unwrap();
    let wait = Duration::from_secs(3);
    let (start, request) = (Instant::now(), one.lock("k").ttl(Duration::from_secs(1)).wait(wait).acquire());
    let mut request = pin!(request);
    until_it_waits(request.as_mut(), &other).await;
    busy.release().await.unwrap();
    other.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap().release().await.unwrap();
    tokio::time::sleep(wait.saturating_sub(start.elapsed())).await;
    let error = request.await.unwrap_err();
    assert!(error.is_unavailable() || error.is_busy(), "{error:?}");
    assert!(!error.is_lost(), "{error:?}");
}

async fn more_waiters_than_are_allowed_are_turned_away_at_once(backend: Backend) {
    let manager = backend.manager().await;
    let guard = manager.lock("k").acquire().await.unwrap();
    let limited = || manager.lock("k").max_waiters(1).wait(Duration::from_secs(60));
    let waiter = tokio::spawn(limited().acquire());
    eventually("one waits", async || {
        manager.inspect("k").await.unwrap().is_some_and(|info| info.waiters_here == 1)
    })
    .await;
    let start = Instant::now();
    assert!(limited().acquire().await.unwrap_err().is_busy());
    assert!(start.elapsed() < AT_ONCE);
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    assert!(matches!(
        manager.lock("k").max_waiters(0).acquire().await,
        Err(LockError::InvalidOptions { .. })
    ));
}
