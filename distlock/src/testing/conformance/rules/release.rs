//! Giving a lock back, wanted or not.

use std::time::Duration;

use crate::testing::conformance::Place;
use crate::testing::eventually;

pub async fn a_dropped_guard_is_released(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    drop(one.lock("k").acquire().await.unwrap());
    other.lock("k").wait(Duration::from_secs(20)).acquire().await.unwrap().release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn a_guard_may_be_dropped_on_a_plain_thread(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let guard = one.lock("k").acquire().await.unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    other.lock("k").wait(Duration::from_secs(20)).acquire().await.unwrap().release().await.unwrap();
}

pub async fn the_body_of_run_is_over_before_the_release_and_the_release_before_run_returns(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let inside = other.clone();
    let value = one.lock("k").run(async |held| {
        held.check().unwrap();
        // Asked by another task: in memory it is the same manager, and this task holds the lock.
        let key = held.key().to_owned();
        let asked = tokio::spawn(async move { inside.lock(key).try_acquire().await });
        assert!(asked.await.unwrap().unwrap().is_none());
        7
    });
    assert_eq!(value.await.unwrap(), 7);
    assert!(other.lock("k").try_acquire().await.unwrap().is_some());
}

pub async fn a_panicking_body_releases(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let body =
        tokio::spawn(async move { one.lock("k").run(|_| async { panic!("a body that panics") }).await });
    assert!(body.await.unwrap_err().is_panic(), "the panic goes on");
    other.lock("k").wait(Duration::from_secs(20)).acquire().await.unwrap().release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn a_cancelled_run_releases(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let (sender, started) = tokio::sync::oneshot::channel();
    let body = tokio::spawn(async move {
        one.lock("k")
            .run(|_| async {
                sender.send(()).unwrap();
                std::future::pending::<()>().await
            })
            .await
    });
    started.await.unwrap();
    body.abort();
    other.lock("k").wait(Duration::from_secs(20)).acquire().await.unwrap().release().await.unwrap();
}

pub async fn a_release_after_force_release_is_reported_as_lost(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let guard = one.lock("k").ttl(Duration::from_secs(60)).acquire().await.unwrap();
    other.force_release("k").await.unwrap();
    let error = guard.release().await.unwrap_err();
    assert!(error.is_lost(), "{error:?}");
    place.is_clean("k").await;
}

pub async fn a_late_release_does_not_free_the_next_holder(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let late = one.lock("k").ttl(Duration::from_millis(300)).no_renew().acquire().await.unwrap();
    let next = other.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap();
    let released = late.release().await;
    assert!(released.as_ref().is_err_and(crate::LockError::is_lost), "{released:?}");
    assert!(one.lock("k").try_acquire().await.unwrap().is_none());
    next.check().unwrap();
    next.release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn managers_may_be_dropped_before_their_guards(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let guard = one.lock("k").acquire().await.unwrap();
    drop(one);
    guard.check().unwrap();
    drop(guard);
    eventually("the lock is free", async || other.inspect("k").await.unwrap().is_none()).await;
}
