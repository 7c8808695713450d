//! Invalid times, and contradictory combinations of options.

use std::time::Duration;

use distlock::LockError;
use distlock_tests::Backend;

distlock_tests::suite![
    a_zero_ttl_is_invalid,
    a_ttl_that_overflows_is_invalid,
    a_ttl_below_a_millisecond_never_reaches_the_server,
    contradicting_options_are_invalid,
    a_wait_that_overflows_is_for_ever,
    a_bad_extension_is_invalid_and_harmless,
];

#[track_caller]
fn assert_invalid<T: std::fmt::Debug>(result: Result<T, LockError>) {
    assert!(matches!(result, Err(LockError::InvalidOptions { .. })), "{result:?}");
}

async fn a_zero_ttl_is_invalid(backend: Backend) {
    let manager = backend.manager().await;
    assert_invalid(manager.lock("k").ttl(Duration::ZERO).acquire().await);
    assert_invalid(manager.lock("k").ttl(Duration::ZERO).try_acquire().await);
    backend.is_clean("k").await;
}

async fn a_ttl_that_overflows_is_invalid(backend: Backend) {
    let manager = backend.manager().await;
    assert_invalid(manager.lock("k").ttl(Duration::MAX).acquire().await);
    assert_invalid(manager.lock("k").ttl(Duration::from_millis(u64::MAX)).acquire().await);
    backend.is_clean("k").await;
}

async fn a_ttl_below_a_millisecond_never_reaches_the_server(backend: Backend) {
    assert_invalid(backend.manager().await.lock("k").ttl(Duration::from_micros(500)).acquire().await);
}

async fn contradicting_options_are_invalid(backend: Backend) {
    let manager = backend.manager().await;
    let second = Duration::from_secs(1);
    let request = || manager.lock("k").ttl(second * 10);
    assert_invalid(request().max_hold(Duration::ZERO).acquire().await);
    assert_invalid(request().no_renew().min_hold(second * 20).acquire().await);
}

async fn a_wait_that_overflows_is_for_ever(backend: Backend) {
    backend.manager().await.lock("k").wait(Duration::MAX).acquire().await.unwrap().release().await.unwrap();
}

async fn a_bad_extension_is_invalid_and_harmless(backend: Backend) {
    let guard = backend.manager().await.lock("k").acquire().await.unwrap();
    assert_invalid(guard.extend(Duration::ZERO).await);
    assert_invalid(guard.extend(Duration::MAX).await);
    guard.check().unwrap();
    guard.release().await.unwrap();
}
