//! How long a request waits, and its error when the wait is over.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::testing::conformance::Place;
use crate::testing::eventually;
use crate::{Guard, LockError, LockManager, Retry};

/// Shorter than the wait of a request that does not name one, 10 s, and longer than any attempt takes on a loaded
/// machine.
const AT_ONCE: Duration = Duration::from_secs(9);

pub async fn try_acquire_of_a_busy_key_is_none_at_once(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let _guard = one.lock("k").acquire().await.unwrap();
    let start = Instant::now();
    assert!(other.lock("k").try_acquire().await.unwrap().is_none());
    assert!(start.elapsed() < AT_ONCE);
}

pub async fn no_wait_is_busy_at_once(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let _guard = one.lock("k").acquire().await.unwrap();
    for request in [other.lock("k").no_wait(), other.lock("k").wait(Duration::ZERO)] {
        let start = Instant::now();
        let error = request.acquire().await.unwrap_err();
        let LockError::Busy { waited, .. } = &error else { panic!("{error:?}") };
        assert!(waited.is_zero() && !error.to_string().contains("waited"), "it did not wait: {error}");
        assert!(start.elapsed() < AT_ONCE);
    }
}

pub async fn a_wait_ends_busy_and_says_for_what_and_how_long(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let _guard = one.lock("order:42").acquire().await.unwrap();
    let wait = Duration::from_millis(300);
    let error = other.lock("order:42").wait(wait).acquire().await.unwrap_err();
    let LockError::Busy { waited, .. } = &error else { panic!("{error:?}") };
    assert!(*waited >= wait && *waited < wait + AT_ONCE, "{waited:?}");
    assert!(error.to_string().contains("order:42"), "{error}");
}

pub async fn a_waiter_gets_the_lock_when_it_is_released(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let guard = one.lock("k").acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("k").wait(Duration::from_secs(60)).acquire());
    place.until_waiting(&one, &other, "k", 1).await;
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn try_acquire_with_a_wait_waits(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let guard = one.lock("k").acquire().await.unwrap();
    let wait = Duration::from_millis(300);
    let start = Instant::now();
    assert!(other.lock("k").wait(wait).try_acquire().await.unwrap().is_none());
    assert!(start.elapsed() >= wait);
    guard.release().await.unwrap();
    assert!(other.lock("k").wait(wait).try_acquire().await.unwrap().is_some());
}

pub async fn wait_forever_outlives_the_default_wait(place: Place) {
    // Longer than a busy server takes to answer.
    let manager = place.builder().default_wait(Duration::from_millis(300)).connect().await.unwrap();
    let guard = manager.lock("k").wait_forever().acquire().await.unwrap();
    let other = manager.clone();
    let waiter = tokio::spawn(async move { other.lock("k").wait_forever().acquire().await });
    assert!(manager.lock("k").acquire().await.unwrap_err().is_busy());
    assert!(!waiter.is_finished());
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

pub async fn retries_are_so_many_further_attempts(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let _guard = one.lock("k").acquire().await.unwrap();
    let delay = Duration::from_millis(100);
    let start = Instant::now();
    let error = other.lock("k").retry(Retry::times(4).delay(delay)).acquire().await.unwrap_err();
    assert!(error.is_busy(), "{error:?}");
    // Four delays of at least half of 100 ms.
    assert!(start.elapsed() >= delay * 2, "{:?}", start.elapsed());
    assert!(start.elapsed() < AT_ONCE);
}

pub async fn a_retry_gets_a_lock_that_became_free(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let guard = one.lock("k").acquire().await.unwrap();
    let retry = Retry::times(1000).delay(Duration::from_millis(20));
    let retrying = tokio::spawn(async move { other.lock("k").retry(retry).acquire().await });
    guard.release().await.unwrap();
    retrying.await.unwrap().unwrap().release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn every_waiter_gets_its_turn(place: Place) {
    let managers = [place.manager().await, place.manager().await];
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
    place.is_clean("k").await;
}

/// A request that is polled until it waits for `k`, which `other` holds, and not after that.
async fn until_it_waits<R: Future>(
    place: &Place,
    request: Pin<&mut R>,
    one: &LockManager,
    other: &LockManager,
) {
    tokio::select! {
        biased;
        _ = request => panic!("the lock is held"),
        () = place.until_waiting(other, one, "k", 1) => {}
    }
}

pub async fn a_lock_that_nobody_picks_up_is_passed_on_when_its_ttl_is_over(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let busy = other.lock("k").acquire().await.unwrap();
    let request = one.lock("k").ttl(Duration::from_secs(1)).wait(Duration::from_secs(600)).acquire();
    let mut request = pin!(request);
    until_it_waits(&place, request.as_mut(), &one, &other).await;
    busy.release().await.unwrap();
    for manager in [&one, &other] {
        let next = manager.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap();
        next.release().await.unwrap();
    }
    // It continues to wait, and gets the lock.
    request.await.unwrap().release().await.unwrap();
    place.is_clean("k").await;
}

type Result = std::result::Result<Guard, LockError>;

/// Polls the request once. `None`: it waits.
async fn begins(mut request: Pin<&mut (dyn Future<Output = Result> + Send)>) -> Option<Result> {
    poll_fn(|cx| match request.as_mut().poll(cx) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

pub async fn a_lock_that_is_handed_on_and_not_picked_up_is_passed_on_when_its_own_ttl_is_over(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let long = one.lock("k").ttl(Duration::from_secs(60)).acquire().await.unwrap();
    let mut request =
        pin!(one.lock("k").ttl(Duration::from_secs(1)).wait(Duration::from_secs(600)).acquire());
    assert!(begins(request.as_mut()).await.is_none());
    // It gets the long lease.
    long.release().await.unwrap();
    for manager in [&one, &other] {
        let next = manager.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap();
        next.release().await.unwrap();
    }
    request.await.unwrap().release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn behind_a_request_that_is_not_polled_nobody_is_told_that_the_store_is_away(place: Place) {
    let manager = place.manager().await;
    let wait = Duration::from_secs(60);
    for left in [manager.lock("a"), manager.lock_all(["a", "b"])] {
        let mut left = pin!(left.wait(wait).acquire());
        let begun = begins(left.as_mut()).await;
        for behind in [manager.lock("a").no_wait(), manager.lock_all(["a", "b"]).no_wait()] {
            match behind.acquire().await {
                Ok(guard) => guard.release().await.unwrap(),
                Err(error) => assert!(error.is_busy(), "{error}"),
            }
        }
        let guard = match begun {
            Some(result) => result,
            None => left.await,
        };
        guard.unwrap().release().await.unwrap();
    }
    place.is_clean("a").await;
}

pub async fn a_request_that_was_not_polled_in_time_says_that_nothing_was_run(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let busy = other.lock("k").acquire().await.unwrap();
    let wait = Duration::from_secs(3);
    let (start, request) = (Instant::now(), one.lock("k").ttl(Duration::from_secs(1)).wait(wait).acquire());
    let mut request = pin!(request);
    until_it_waits(&place, request.as_mut(), &one, &other).await;
    busy.release().await.unwrap();
    other.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap().release().await.unwrap();
    tokio::time::sleep(wait.saturating_sub(start.elapsed())).await;
    let error = request.await.unwrap_err();
    assert!(error.is_unavailable() || error.is_busy(), "{error:?}");
    assert!(!error.is_lost(), "{error:?}");
}

pub async fn more_waiters_than_are_allowed_are_turned_away_at_once(place: Place) {
    let manager = place.manager().await;
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
