//! Read locks.

use std::time::Duration;

use super::loss::is_lost_at_once;
use super::operations::{holder_of, is_owner, tells_ends};
use super::threads::{join, spawn};
use crate::testing::conformance::Place;
use crate::{ForcedRelease, LockError, LockKind, LockManager, distributed_lock};

const LONG: Duration = Duration::from_secs(60);

pub async fn readers_share_and_exclude_a_writer(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let first = one.lock("k").shared().acquire().await.unwrap();
    let second = other.lock("k").shared().no_wait().acquire().await.unwrap();
    assert!(other.lock("k").try_acquire().await.unwrap().is_none());
    first.release().await.unwrap();
    assert!(one.lock("k").try_acquire().await.unwrap().is_none());
    second.release().await.unwrap();
    one.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn a_writer_excludes_readers(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let writer = one.lock("k").acquire().await.unwrap();
    assert!(other.lock("k").shared().try_acquire().await.unwrap().is_none());
    writer.release().await.unwrap();
    other.lock("k").shared().wait(LONG).acquire().await.unwrap().release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn a_waiting_writer_gets_its_turn(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let reader = one.lock("k").shared().acquire().await.unwrap();
    let writer = tokio::spawn(other.lock("k").wait(LONG).acquire());
    place.until_waiting(&one, &other, "k", 1).await;
    reader.release().await.unwrap();
    writer.await.unwrap().unwrap().release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn readers_share_all_of_them_and_writers_none(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let keys = ["a", "b", "c"];
    let first = one.lock_all(keys).shared().acquire().await.unwrap();
    let second = other.lock_all(keys).shared().no_wait().acquire().await.unwrap();
    assert!(one.lock_all(keys).try_acquire().await.unwrap().is_none());
    first.release().await.unwrap();
    assert!(other.lock("c").try_acquire().await.unwrap().is_none());
    second.release().await.unwrap();
    let writer = one.lock_all(keys).no_wait().acquire().await.unwrap();
    assert!(other.lock_all(keys).shared().try_acquire().await.unwrap().is_none());
    writer.release().await.unwrap();
    place.is_clean("a").await;
}

pub async fn inspect_and_busy_name_those_who_hold_a_shared_lock(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let (short, long) = (Duration::from_secs(20), Duration::from_secs(40));
    let first = one.lock("k").shared().ttl(short).acquire().await.unwrap();
    let second = other.lock("k").shared().ttl(long).acquire().await.unwrap();
    let info = one.inspect("k").await.unwrap().expect("two hold it");
    assert_eq!(info.kind, LockKind::Shared);
    // In memory both are one manager, which holds it once for all its readers.
    let expected = if place.is_one_process() { 1 } else { 2 };
    assert_eq!(info.holders.len(), expected, "{info:?}");
    assert!(info.holders.iter().all(|holder| is_owner(&holder.token)), "{info:?}");
    assert_eq!(info.holder, info.holders[0].token);
    let tells_ends = tells_ends(&one).await;
    if let ([first, last], true) = (info.holders.as_slice(), tells_ends) {
        assert!(first.remaining > last.remaining, "{info:?}");
    }
    assert!(!tells_ends || info.remaining.is_some_and(|left| left > short / 2), "{info:?}");
    // One attempt, a wait, and several keys of which it is one.
    let once = one.lock("k").no_wait().acquire().await.unwrap_err();
    let waited = one.lock("k").wait(Duration::from_millis(200)).acquire().await.unwrap_err();
    let several = one.lock_all(["k", "l"]).no_wait().acquire().await.unwrap_err();
    for error in [once, waited, several] {
        assert_eq!(holder_of(&error), info.holder, "{error}");
    }
    first.release().await.unwrap();
    second.release().await.unwrap();
    place.is_clean("k").await;
}

/// It would not be renewed within the test.
pub async fn a_forced_release_reaches_the_readers_at_once(place: Place) {
    let manager = place.manager().await;
    let request = manager.lock("shared").shared().ttl(Duration::from_secs(3_600));
    is_lost_at_once(&place, &manager, "shared", request).await;
}

/// Threads, too.
pub async fn readers_may_be_threads(place: Place) {
    let manager = crate::blocking::LockManager::from(place.manager().await);
    let other = manager.clone();
    let (reader, both, writer) = join(vec![spawn(move || {
        let reader = other.lock("shared").shared().acquire().unwrap();
        let both = other.lock("shared").shared().try_acquire().map(|guard| guard.is_some());
        (reader, both, other.lock("shared").try_acquire().map(|guard| guard.is_some()))
    })])
    .await
    .remove(0);
    assert!(both.unwrap() && !writer.unwrap());
    join(vec![spawn(move || reader.release().unwrap())]).await;
}

#[distributed_lock(key = "page", mode = "shared", manager = locks)]
async fn read(locks: &LockManager, together: &tokio::sync::Barrier) -> Result<bool, LockError> {
    together.wait().await;
    Ok(locks.lock("page").label("writer").no_wait().acquire().await.is_err())
}

pub async fn readers_come_together_and_keep_writers_out(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let together = tokio::sync::Barrier::new(2);
    let (a, b) = tokio::join!(read(&one, &together), read(&other, &together));
    assert!(a.unwrap() && b.unwrap());
}

/// The others read on, and keep writers out.
pub async fn one_of_several_readers_is_taken_out_by_force(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let first = one.lock("k").shared().ttl(LONG).acquire().await.unwrap();
    let second = other.lock("k").shared().ttl(LONG).acquire().await.unwrap();
    if first.owner() != second.owner() {
        let from = first.owner();
        let done = other.force_release_from("k", &from).await.unwrap();
        assert_eq!(done, ForcedRelease::Released { from: from.clone() });
        let kept = ForcedRelease::HeldByAnother { holder: second.owner() };
        assert_eq!(other.force_release_from("k", &from).await.unwrap(), kept);
    }
    second.check().unwrap();
    assert!(other.lock("k").try_acquire().await.unwrap().is_none());
    second.release().await.unwrap();
    drop(first);
    one.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
    place.is_clean("k").await;
}
