//! How long a lock is held: ttl, renewal, its caps, extension.

use std::time::{Duration, Instant};

use crate::testing::conformance::Place;
use crate::testing::{BOUND, eventually};
use crate::{Guard, LockError};

pub(super) const SHORT: Duration = Duration::from_millis(400);
/// Longer than any test runs.
const LONG: Duration = Duration::from_secs(600);

pub async fn a_renewed_lease_outlives_its_ttl(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let ttl = Duration::from_secs(4);
    let guard = one.lock("k").ttl(ttl).acquire().await.unwrap();
    let waited = other.lock("k").wait(ttl + SHORT).acquire().await.unwrap_err();
    assert!(waited.is_busy(), "{waited:?}");
    guard.check().unwrap();
    guard.release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn without_renewal_the_ttl_is_a_hard_limit(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let start = Instant::now();
    let guard = one.lock("k").ttl(SHORT).no_renew().acquire().await.unwrap();
    assert!(guard.remaining() <= SHORT, "{:?}", guard.remaining());
    is_lost_in_time(&guard).await;
    assert_lost(&guard.check().unwrap_err(), "Expired");
    let next = other.lock("k").wait(LONG).acquire().await.unwrap();
    assert!(start.elapsed() >= SHORT, "the key lives for its whole ttl");
    next.release().await.unwrap();
}

pub async fn max_hold_caps_renewal(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    // The lease alone would end before.
    let cap = Duration::from_millis(2_200);
    let guard = one.lock("k").ttl(Duration::from_secs(2)).max_hold(cap).acquire().await.unwrap();
    assert!(guard.remaining() <= cap, "{:?}", guard.remaining());
    is_lost_in_time(&guard).await;
    assert_lost(&guard.check().unwrap_err(), "MaxHold");
    other.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
}

pub async fn remaining_lies_within_the_ttl(place: Place) {
    let manager = place.manager().await;
    let ttl = Duration::from_secs(20);
    let guard = manager.lock("k").ttl(ttl).acquire().await.unwrap();
    assert!(guard.remaining() < ttl && guard.remaining() > ttl / 2, "{:?}", guard.remaining());
    assert!(guard.is_held());
}

pub async fn extend_moves_the_end_of_the_lease(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let guard = one.lock("k").ttl(Duration::from_secs(3)).no_renew().acquire().await.unwrap();
    guard.extend(Duration::from_secs(60)).await.unwrap();
    assert!(guard.remaining() > Duration::from_secs(30), "{:?}", guard.remaining());
    assert!(other.lock("k").wait(Duration::from_secs(4)).acquire().await.unwrap_err().is_busy());
    guard.release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn extend_never_shortens(place: Place) {
    let manager = place.manager().await;
    let guard = manager.lock("k").ttl(Duration::from_secs(60)).acquire().await.unwrap();
    guard.extend(Duration::from_secs(1)).await.unwrap();
    assert!(guard.remaining() > Duration::from_secs(30), "{:?}", guard.remaining());
}

pub async fn a_lost_guard_says_so_in_every_way(place: Place) {
    let manager = place.manager().await;
    let guard = manager.lock("k").ttl(SHORT).no_renew().acquire().await.unwrap();
    let child = tokio::spawn(guard.lost());
    eventually("the lease has ended", async || !guard.is_held()).await;
    child.await.unwrap();
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert!(guard.check().unwrap_err().is_lost());
    assert!(guard.extend(Duration::from_secs(60)).await.unwrap_err().is_lost(), "lost is final");
}

async fn is_lost_in_time(guard: &Guard) {
    tokio::time::timeout(BOUND, guard.lost()).await.expect("its time is over");
}

pub(super) fn assert_lost(error: &LockError, reason: &str) {
    let LockError::Lost { reason: found, .. } = error else { panic!("{error:?}") };
    assert_eq!(format!("{found:?}"), reason);
}
