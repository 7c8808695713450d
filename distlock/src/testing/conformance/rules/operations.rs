//! Looking at a lock from outside, and taking it away.

use std::time::Duration;

use crate::testing::conformance::Place;
use crate::{LockError, LockKind};

pub async fn a_free_lock_has_nothing_to_inspect(place: Place) {
    assert!(place.manager().await.inspect("k").await.unwrap().is_none());
}

pub async fn inspect_shows_the_holder(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let guard = one.lock("k").acquire().await.unwrap();
    let info = other.inspect("k").await.unwrap().expect("somebody holds it");
    assert_eq!(info.waiters, 0);
    assert!(is_owner(&info.holder), "{info:?}");
    assert_eq!(info.kind, LockKind::Exclusive);
    assert_eq!((info.holders.len(), &info.holders[0].token), (1, &info.holder));
    guard.release().await.unwrap();
    assert!(other.inspect("k").await.unwrap().is_none());
}

/// `dl1:<client>:<number>`
pub(super) fn is_owner(holder: &str) -> bool {
    let mut parts = holder.split(':');
    parts.next() == Some("dl1")
        && parts.next().is_some_and(|client| client.len() > 1)
        && parts.next().is_some_and(|number| number.parse::<u64>().is_ok())
        && parts.next().is_none()
}

pub(super) fn holder_of(error: &LockError) -> String {
    match error {
        LockError::Busy { holder: Some(holder), .. } => holder.to_string(),
        other => panic!("not busy: {other:?}"),
    }
}

pub async fn force_release_frees_the_lock(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let _lost = one.lock("k").ttl(Duration::from_secs(3)).acquire().await.unwrap();
    assert!(other.force_release("k").await.unwrap());
    // The manager that holds it learns of it at its next renewal; in memory that is the one that asks, and
    // learns of it at once.
    other.lock("k").wait(Duration::from_secs(60)).acquire().await.unwrap().release().await.unwrap();
}

pub async fn force_release_of_a_free_lock_changes_nothing(place: Place) {
    let manager = place.manager().await;
    assert!(!manager.force_release("k").await.unwrap());
    place.is_clean("k").await;
}
