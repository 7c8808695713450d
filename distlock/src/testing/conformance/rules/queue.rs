//! Waiters in the store's queue, which all processes see.

use std::sync::Arc;
use std::time::Duration;

use super::threads::{CROWD, crowd, join};
use crate::blocking::LockManager;
use crate::testing::conformance::Place;
use crate::testing::conformance::place::Tally;

pub async fn a_thousand_threads_are_one_place_in_it(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let tally = Arc::new(Tally::default());
    let guard = one.lock("k").acquire().await.unwrap();
    let threads = crowd(&LockManager::from(other.clone()), &tally);
    place.until_waiting(&other, &other, "k", 1_000).await;
    if !place.is_one_process() {
        // Their own manager knows of them before the store does.
        place.until_waiting(&one, &other, "k", 1).await;
        assert_eq!(one.inspect("k").await.unwrap().unwrap().waiters, 1);
    }
    guard.release().await.unwrap();
    for result in join(threads).await {
        result.unwrap();
    }
    assert_eq!(tally.value(), u64::from(CROWD));
    place.is_clean("k").await;
}

pub async fn who_has_gone_does_not_stand_in_it(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let guard = one.lock("k").acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("k").wait(Duration::from_secs(600)).acquire());
    place.until_waiting(&one, &other, "k", 1).await;
    waiter.abort();
    assert!(waiter.await.unwrap_err().is_cancelled());
    place.until_nobody_waits(&one, &other, "k").await;
    guard.release().await.unwrap();
    place.is_clean("k").await;
}
