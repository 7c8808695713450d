//! A link that is cut, and mended.

use std::time::{Duration, Instant};

use crate::testing::conformance::Place;
use crate::testing::eventually;
use crate::{LockError, LockManager};

/// Much longer than any test runs.
const LONG: Duration = Duration::from_secs(3_600);

/// It knows that the link is cut.
async fn until_cut(manager: &LockManager) {
    eventually("the link is down", async || manager.inspect("nothing").await.is_err()).await;
}

async fn until_mended(manager: &LockManager) {
    eventually("the link is up", async || manager.inspect("nothing").await.is_ok()).await;
}

pub async fn without_a_link_a_request_is_unavailable_in_time(place: Place) {
    let manager = place.builder().unavailable_after(Duration::from_secs(1)).connect().await.unwrap();
    place.cut().await;
    let start = Instant::now();
    let error = manager.lock("k").wait_forever().acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    place.mend().await;
    until_mended(&manager).await;
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn a_holder_outlives_a_cut_that_is_shorter_than_its_lease(place: Place) {
    let manager = place.manager().await;
    let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
    place.cut().await;
    until_cut(&manager).await;
    assert!(guard.is_held());
    place.mend().await;
    until_mended(&manager).await;
    guard.check().unwrap();
    guard.extend(LONG * 2).await.unwrap();
    guard.release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn a_holder_without_a_link_knows_when_its_lease_is_over(place: Place) {
    let manager = place.manager().await;
    let guard = manager.lock("k").ttl(Duration::from_secs(1)).acquire().await.unwrap();
    place.cut().await;
    guard.lost().await;
    assert!(!guard.is_held());
    place.mend().await;
    let next = manager.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap();
    next.release().await.unwrap();
}

pub async fn a_release_without_a_link_is_made_up_for(place: Place) {
    let manager = place.manager().await;
    let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
    place.cut().await;
    until_cut(&manager).await;
    drop(guard);
    place.mend().await;
    let next = manager.lock("k").wait(Duration::from_secs(60)).acquire();
    next.await.unwrap().release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn a_waiter_gets_the_lock_although_the_link_was_cut(place: Place) {
    // Neither request gives up while the link is cut. A third one notices the cut.
    let patient = async || place.builder().unavailable_after(LONG).connect().await.unwrap();
    let (one, other, third) = (patient().await, patient().await, place.manager().await);
    let guard = one.lock("k").ttl(LONG).acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("k").wait(LONG).acquire());
    place.until_waiting(&one, &other, "k", 1).await;
    place.cut().await;
    until_cut(&third).await;
    place.mend().await;
    until_mended(&one).await;
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    place.is_clean("k").await;
}

/// Commands in flight when the link is cut leave nothing behind.
pub async fn an_acquire_may_be_cut_off_anywhere(place: Place) {
    let manager = place.manager().await;
    for round in 0..20 {
        let acquiring = tokio::spawn(manager.lock("k").ttl(LONG).wait(Duration::from_millis(500)).acquire());
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        place.cut().await;
        drop(acquiring.await.unwrap());
        place.mend().await;
        until_mended(&manager).await;
        manager.lock("k").wait(Duration::from_secs(60)).acquire().await.unwrap().release().await.unwrap();
    }
    place.is_clean("k").await;
}
