//! Inspection and forced release of a lock.

use std::time::Duration;

use crate::testing::conformance::Place;
use crate::{ForcedRelease, LockError, LockKind, LockManager};

const LONG: Duration = Duration::from_secs(60);

pub async fn a_free_lock_has_nothing_to_inspect(place: Place) {
    assert!(place.manager().await.inspect("k").await.unwrap().is_none());
}

pub async fn inspect_shows_the_holder(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let guard = one.lock("k").acquire().await.unwrap();
    let info = other.inspect("k").await.unwrap().expect("it is held");
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

/// Whether the store reports when a lease ends. (`inspect_shows_the_remaining_time` checks whether it must.)
pub(super) async fn tells_ends(manager: &LockManager) -> bool {
    let guard = manager.lock("whether ends are reported").acquire().await.unwrap();
    let tells =
        manager.inspect("whether ends are reported").await.unwrap().expect("it is held").remaining.is_some();
    guard.release().await.unwrap();
    tells
}

pub async fn force_release_frees_the_lock(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let _lost = one.lock("k").ttl(Duration::from_secs(3)).acquire().await.unwrap();
    assert!(other.force_release("k").await.unwrap());
    // The manager that holds the lock notices the loss at its next renewal. In memory, both managers are one,
    // which notices it at once.
    other.lock("k").wait(Duration::from_secs(60)).acquire().await.unwrap().release().await.unwrap();
}

pub async fn force_release_of_a_free_lock_changes_nothing(place: Place) {
    let manager = place.manager().await;
    assert!(!manager.force_release("k").await.unwrap());
    place.is_clean("k").await;
}

/// The holder that `inspect` has shown may have released the lock meanwhile. Then the next holder keeps it.
pub async fn force_release_from_leaves_the_lock_to_its_next_holder(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let first = one.lock("k").ttl(LONG).acquire().await.unwrap();
    let seen = other.inspect("k").await.unwrap().expect("it is held").holder;
    assert_eq!(seen, first.owner());
    first.release().await.unwrap();
    let next = other.lock("k").ttl(LONG).wait(LONG).acquire().await.unwrap();
    for named in [&*seen, "another"] {
        for manager in [&one, &other] {
            let kept = ForcedRelease::HeldByAnother { holder: next.owner() };
            assert_eq!(manager.force_release_from("k", named).await.unwrap(), kept);
        }
    }
    next.check().unwrap();
    assert!(one.lock("k").try_acquire().await.unwrap().is_none());
    next.release().await.unwrap();
    for named in [&*seen, "another"] {
        assert_eq!(one.force_release_from("k", named).await.unwrap(), ForcedRelease::NotHeld);
    }
    place.is_clean("k").await;
}

/// The lock is removed by a process that does not hold it, although other processes wait.
pub async fn force_release_from_takes_the_lock_from_the_holder_that_is_named(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let lost = one.lock("k").ttl(LONG).acquire().await.unwrap();
    let next = tokio::spawn(other.lock("k").wait(LONG).acquire());
    place.until_waiting(&one, &other, "k", 1).await;
    let from = lost.owner();
    let done = other.force_release_from("k", &from).await.unwrap();
    assert_eq!(done, ForcedRelease::Released { from });
    next.await.unwrap().unwrap().release().await.unwrap();
}
