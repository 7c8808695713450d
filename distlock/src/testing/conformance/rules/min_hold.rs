//! A key that stays taken after its release.

use std::time::{Duration, Instant};

use super::lease::{SHORT, assert_lost};
use super::several_keys::{LONG, while_the_second_is_awaited};
use crate::testing::conformance::Place;
use crate::testing::{BOUND, eventually};

/// The key has become free, not before the end of the hold, and long before the end of its ttl.
fn is_as_long(hold: Duration, start: Instant) {
    let elapsed = start.elapsed();
    assert!(elapsed >= hold && elapsed < LONG / 4, "{elapsed:?}");
}

pub async fn min_hold_keeps_the_key_after_the_release(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let hold = Duration::from_millis(800);
    let start = Instant::now();
    one.lock("k").ttl(LONG).min_hold(hold).acquire().await.unwrap().release().await.unwrap();
    for manager in [&one, &other] {
        if let Some(early) = manager.lock("k").try_acquire().await.unwrap() {
            assert!(start.elapsed() >= hold, "{:?}", start.elapsed());
            early.release().await.unwrap();
        }
    }
    let guard = other.lock("k").wait(LONG).acquire().await.unwrap();
    is_as_long(hold, start);
    guard.release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn min_hold_keeps_the_key_after_a_drop(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let hold = Duration::from_millis(800);
    let start = Instant::now();
    drop(one.lock("k").ttl(LONG).min_hold(hold).acquire().await.unwrap());
    other.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
    is_as_long(hold, start);
}

pub async fn min_hold_outlives_a_loss_by_max_hold(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let hold = Duration::from_millis(1500);
    let start = Instant::now();
    let request = one.lock("k").ttl(LONG).min_hold(hold).max_hold(SHORT);
    let body = request.run(async |_| std::future::pending::<()>().await);
    assert_lost(&body.await.unwrap_err(), "MaxHold");
    other.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
    is_as_long(hold, start);
    place.is_clean("k").await;
}

pub async fn min_hold_outlives_a_shutdown(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let hold = Duration::from_millis(1500);
    let start = Instant::now();
    let guard = one.lock("k").ttl(LONG).min_hold(hold).acquire().await.unwrap();
    let body = tokio::spawn(async move {
        let lost = guard.lost().await;
        drop(guard);
        lost
    });
    let _report = one.shutdown(Duration::from_millis(50)).await;
    assert_lost(&body.await.unwrap(), "Shutdown");
    eventually("the key is free", async || other.inspect("k").await.unwrap().is_none()).await;
    is_as_long(hold, start);
}

/// For several keys it counts from the acquisition of the last one.
pub async fn min_hold_counts_from_the_guard(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let short = Duration::from_millis(800);
    let request = one.lock_all(["a", "b"]).min_hold(short);
    let (guard, before) = while_the_second_is_awaited(&place, &one, request, short * 3 / 2).await;
    guard.release().await.unwrap();
    for key in ["a", "b"] {
        other.lock(key).wait(LONG).acquire().await.unwrap().release().await.unwrap();
        assert!(before.elapsed() >= short / 2, "{key} was free after {:?}", before.elapsed());
    }
}

/// One key is lost while the next one is awaited. No body runs, so the other key is not kept.
pub async fn min_hold_keeps_no_key_of_a_collection_that_was_lost(place: Place) {
    let (one, holder) = (place.manager().await, place.manager().await);
    let busy = holder.lock("b").acquire().await.unwrap();
    let ttl = Duration::from_secs(2);
    let request = one.lock_all(["a", "b"]).ttl(ttl).min_hold(LONG).wait(LONG);
    let waiter = tokio::spawn(request.acquire());
    place.until_waiting(&holder, &one, "b", 1).await;
    holder.force_release("a").await.unwrap();
    // No renewal is confirmed, so the lease has expired then.
    tokio::time::sleep(ttl).await;
    busy.release().await.unwrap();
    // It continues, and acquires both.
    let guard = tokio::time::timeout(BOUND, waiter).await.expect("`b` is not kept").unwrap().unwrap();
    guard.release().await.unwrap();
    for key in ["a", "b"] {
        holder.force_release(key).await.unwrap();
    }
    for key in ["a", "b"] {
        place.is_clean(key).await;
    }
}

/// The holder that is shown for a kept key can be removed by force like any other.
pub async fn a_key_that_is_kept_is_freed_by_force(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    one.lock("k").ttl(LONG).min_hold(LONG).acquire().await.unwrap().release().await.unwrap();
    let kept = other.inspect("k").await.unwrap().expect("it is kept").holder;
    let done = other.force_release_from("k", &kept).await.unwrap();
    assert_eq!(done, crate::ForcedRelease::Released { from: kept });
    one.lock("k").no_wait().acquire().await.unwrap().release().await.unwrap();
}
