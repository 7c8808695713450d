//! How long a lock is held: ttl, renewal, its caps, extension.

use std::time::{Duration, Instant};

use distlock::LockError;
use distlock_tests::{Backend, eventually};

distlock_tests::suite![
    a_renewed_lease_outlives_its_ttl,
    without_renewal_the_ttl_is_a_hard_limit,
    max_hold_caps_renewal,
    min_hold_keeps_the_key_after_the_release,
    min_hold_keeps_the_key_after_a_drop,
    min_hold_outlives_a_loss_by_max_hold,
    min_hold_outlives_a_shutdown,
    remaining_lies_within_the_ttl,
    extend_moves_the_end_of_the_lease,
    extend_never_shortens,
    a_lost_guard_says_so_in_every_way,
];

const SHORT: Duration = Duration::from_millis(400);

async fn a_renewed_lease_outlives_its_ttl(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let ttl = Duration::from_millis(1500);
    let guard = one.lock("k").ttl(ttl).acquire().await.unwrap();
    let waited = other.lock("k").wait(ttl * 2).acquire().await.unwrap_err();
    assert!(waited.is_busy(), "{waited:?}");
    guard.check().unwrap();
    guard.release().await.unwrap();
    backend.is_clean("k").await;
}

async fn without_renewal_the_ttl_is_a_hard_limit(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let start = Instant::now();
    let guard = one.lock("k").ttl(SHORT).no_renew().acquire().await.unwrap();
    guard.lost().await;
    assert!(start.elapsed() < SHORT + Duration::from_secs(5));
    assert_lost(&guard.check().unwrap_err(), "Expired");
    let next = other.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap();
    assert!(start.elapsed() >= SHORT, "the key lives for its whole ttl");
    next.release().await.unwrap();
}

async fn max_hold_caps_renewal(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let cap = SHORT * 3;
    let start = Instant::now();
    let guard = one.lock("k").ttl(SHORT * 2).max_hold(cap).acquire().await.unwrap();
    guard.lost().await;
    assert!(start.elapsed() <= cap + Duration::from_secs(5), "{:?}", start.elapsed());
    assert_lost(&guard.check().unwrap_err(), "MaxHold");
    other.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap().release().await.unwrap();
}

async fn min_hold_keeps_the_key_after_the_release(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let hold = Duration::from_millis(800);
    let start = Instant::now();
    one.lock("k").min_hold(hold).acquire().await.unwrap().release().await.unwrap();
    if start.elapsed() < hold / 2 {
        assert!(one.lock("k").try_acquire().await.unwrap().is_none());
        assert!(other.lock("k").try_acquire().await.unwrap().is_none());
    }
    let guard = other.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap();
    let elapsed = start.elapsed();
    assert!(elapsed >= hold && elapsed < hold + Duration::from_secs(10), "{elapsed:?}");
    guard.release().await.unwrap();
    backend.is_clean("k").await;
}

async fn min_hold_keeps_the_key_after_a_drop(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let hold = Duration::from_millis(800);
    let start = Instant::now();
    drop(one.lock("k").min_hold(hold).acquire().await.unwrap());
    other.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap().release().await.unwrap();
    let elapsed = start.elapsed();
    assert!(elapsed >= hold && elapsed < hold + Duration::from_secs(10), "{elapsed:?}");
}

async fn min_hold_outlives_a_loss_by_max_hold(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let hold = Duration::from_millis(1500);
    let start = Instant::now();
    let body = one.lock("k").min_hold(hold).max_hold(SHORT).run(async |_| std::future::pending::<()>().await);
    assert_lost(&body.await.unwrap_err(), "MaxHold");
    other.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap().release().await.unwrap();
    let elapsed = start.elapsed();
    assert!(elapsed >= hold && elapsed < hold + Duration::from_secs(10), "{elapsed:?}");
    backend.is_clean("k").await;
}

async fn min_hold_outlives_a_shutdown(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let hold = Duration::from_millis(1500);
    let start = Instant::now();
    let guard = one.lock("k").min_hold(hold).acquire().await.unwrap();
    let body = tokio::spawn(async move {
        let lost = guard.lost().await;
        drop(guard);
        lost
    });
    let _report = one.shutdown(Duration::from_millis(50)).await;
    assert_lost(&body.await.unwrap(), "Shutdown");
    eventually("the key is free", async || other.inspect("k").await.unwrap().is_none()).await;
    let elapsed = start.elapsed();
    assert!(elapsed >= hold && elapsed < hold + Duration::from_secs(10), "{elapsed:?}");
}

async fn remaining_lies_within_the_ttl(backend: Backend) {
    let manager = backend.manager().await;
    let ttl = Duration::from_secs(20);
    let guard = manager.lock("k").ttl(ttl).acquire().await.unwrap();
    assert!(guard.remaining() < ttl && guard.remaining() > ttl / 2, "{:?}", guard.remaining());
    assert!(guard.is_held());
}

async fn extend_moves_the_end_of_the_lease(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let guard = one.lock("k").ttl(Duration::from_secs(2)).no_renew().acquire().await.unwrap();
    guard.extend(Duration::from_secs(60)).await.unwrap();
    assert!(guard.remaining() > Duration::from_secs(30), "{:?}", guard.remaining());
    assert!(other.lock("k").wait(Duration::from_secs(3)).acquire().await.unwrap_err().is_busy());
    guard.release().await.unwrap();
    backend.is_clean("k").await;
}

async fn extend_never_shortens(backend: Backend) {
    let manager = backend.manager().await;
    let guard = manager.lock("k").ttl(Duration::from_secs(60)).acquire().await.unwrap();
    guard.extend(Duration::from_secs(1)).await.unwrap();
    assert!(guard.remaining() > Duration::from_secs(30), "{:?}", guard.remaining());
}

async fn a_lost_guard_says_so_in_every_way(backend: Backend) {
    let manager = backend.manager().await;
    let guard = manager.lock("k").ttl(SHORT).no_renew().acquire().await.unwrap();
    let child = tokio::spawn(guard.lost());
    eventually("the lease has ended", async || !guard.is_held()).await;
    child.await.unwrap();
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert!(guard.check().unwrap_err().is_lost());
    assert!(guard.extend(Duration::from_secs(60)).await.unwrap_err().is_lost(), "lost is final");
}

fn assert_lost(error: &LockError, reason: &str) {
    let LockError::Lost { reason: found, .. } = error else { panic!("{error:?}") };
    assert_eq!(format!("{found:?}"), reason);
}
