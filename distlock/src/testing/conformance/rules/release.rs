//! Releases, by the program or by a drop.

use std::time::Duration;

use crate::Release;
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
    assert!(body.await.unwrap_err().is_panic(), "the panic continues");
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

pub async fn a_release_in_the_background_is_ahead_of_the_next_acquisition_of_its_process(place: Place) {
    let manager = place.manager().await;
    for round in 0..50 {
        let section = manager.lock("k").no_wait().release(Release::Background);
        section.run(async |held| held.check()).await.unwrap().unwrap();
        // One attempt: if it had overtaken the release, it would be busy.
        let next = manager.lock("k").try_acquire().await.unwrap();
        assert!(next.is_some(), "round {round}: busy after its own release");
        // Another thread of the process.
        next.unwrap().release().await.unwrap();
        manager.lock("k").release(Release::Background).run(async |_| ()).await.unwrap();
        let elsewhere = manager.clone();
        let taken = std::thread::spawn(move || {
            crate::blocking::LockManager::from(elsewhere)
                .lock("k")
                .release(Release::Background)
                .no_wait()
                .run(|_| ())
        });
        taken.join().unwrap().unwrap();
    }
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn a_release_in_the_background_reaches_other_processes(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    one.lock("k").release(Release::Background).run(async |held| held.check()).await.unwrap().unwrap();
    other.lock("k").wait(Duration::from_secs(20)).acquire().await.unwrap().release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn a_shutdown_waits_for_releases_in_the_background(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    for key in 0..20 {
        let section = one.lock(format!("k{key}")).release(Release::Background);
        section.run(async |held| held.check()).await.unwrap().unwrap();
    }
    if place.is_one_process() {
        return;
    }
    let report = one.shutdown(Duration::from_secs(20)).await;
    assert_eq!((report.lost, report.ignored, report.unconfirmed), (0, 0, 0), "{report:?}");
    for key in 0..20 {
        assert!(other.lock(format!("k{key}")).try_acquire().await.unwrap().is_some(), "{key}");
    }
}
