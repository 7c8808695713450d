//! Locks that stay with a process between its sections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::testing::conformance::Place;
use crate::testing::conformance::place::Tally;
use crate::testing::eventually;
use crate::{LockError, LockManager, LockRequest, Release};

/// Longer than any rule runs: a request that acquires the lock did not have to wait until the lease expired.
const LONG: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(100);
/// The time limit of waiters. If they do not get the lock, the rule is broken.
const PATIENT: Duration = Duration::from_secs(60);

fn lingering(manager: &LockManager, linger: Duration) -> LockRequest {
    manager.lock("k").wait(PATIENT).linger(linger)
}

pub async fn sections_of_one_process_come_back_to_the_lock_that_it_keeps(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let before = lingering(&one, LONG).run(async |_| other.inspect("k").await.unwrap()).await.unwrap();
    let before = before.expect("it is held");
    let kept = other.inspect("k").await.unwrap().expect("it is kept");
    assert_eq!(kept.holder, before.holder);
    for _ in 0..30 {
        let during = lingering(&one, LONG).run(async |_| other.inspect("k").await.unwrap()).await.unwrap();
        assert_eq!(during.expect("it is held").holder, before.holder);
    }
    // One that does not linger comes back, too, and releases.
    one.lock("k").run(async |_| ()).await.unwrap();
    place.is_clean("k").await;
}

pub async fn another_process_gets_a_lock_that_lingers(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    for round in 0..3 {
        lingering(&one, SHORT).run(async |_| ()).await.unwrap();
        let guard = other.lock("k").wait(PATIENT).acquire().await;
        guard.unwrap_or_else(|error| panic!("round {round}: {error}")).release().await.unwrap();
        lingering(&one, SHORT).run(async |_| ()).await.unwrap();
        eventually("who tries gets it", async || match other.lock("k").try_acquire().await.unwrap() {
            Some(guard) => guard.release().await.is_ok(),
            None => false,
        })
        .await;
    }
    place.is_clean("k").await;
}

pub async fn another_process_gets_it_although_sections_follow_each_other(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let done = Arc::new(AtomicBool::new(false));
    let begun = Arc::new(AtomicBool::new(false));
    let busy = {
        let (one, done, begun) = (one.clone(), done.clone(), begun.clone());
        tokio::spawn(async move {
            while !done.load(Ordering::Relaxed) {
                lingering(&one, SHORT).run(async |_| tokio::task::yield_now().await).await.unwrap();
                begun.store(true, Ordering::Relaxed);
            }
        })
    };
    eventually("sections follow each other", async || begun.load(Ordering::Relaxed)).await;
    for _ in 0..5 {
        other.lock("k").wait(PATIENT).acquire().await.unwrap().release().await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    busy.await.unwrap();
    place.is_clean("k").await;
}

pub async fn sections_never_overlap_although_locks_linger(place: Place) {
    let tally = Arc::new(Tally::default());
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let manager = place.manager().await;
        for task in 0..3 {
            let (manager, tally) = (manager.clone(), tally.clone());
            tasks.push(tokio::spawn(async move {
                for round in 0..20 {
                    let linger = (round % 3 != task).then_some(SHORT);
                    let section = manager.lock("k").wait(PATIENT).linger(linger);
                    section.run(async |_| tally.increment().await).await.unwrap();
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(tally.value(), 180);
    place.is_clean("k").await;
}

pub async fn a_shutdown_gives_back_what_lingers(place: Place) {
    if place.is_one_process() {
        return;
    }
    let (one, other) = (place.manager().await, place.manager().await);
    lingering(&one, LONG).run(async |_| ()).await.unwrap();
    let report = one.shutdown(PATIENT).await;
    assert_eq!((report.lost, report.ignored, report.unconfirmed), (0, 0, 0), "{report:?}");
    other.lock("k").try_acquire().await.unwrap().expect("it is free").release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn a_manager_that_is_dropped_gives_back_what_lingers(place: Place) {
    if place.is_one_process() {
        return;
    }
    let (one, other) = (place.manager().await, place.manager().await);
    lingering(&one, LONG).run(async |_| ()).await.unwrap();
    drop(one);
    eventually("it is free", async || other.inspect("k").await.unwrap().is_none()).await;
    place.is_clean("k").await;
}

pub async fn a_release_in_the_background_and_a_dropped_guard_let_it_linger_too(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let in_background = lingering(&one, LONG).release(Release::Background);
    in_background.run(async |held| held.check()).await.unwrap().unwrap();
    let kept = other.inspect("k").await.unwrap().expect("it is kept");
    drop(lingering(&one, LONG).acquire().await.unwrap());
    assert_eq!(other.inspect("k").await.unwrap().expect("it is kept").holder, kept.holder);
    one.lock("k").linger(None).release(Release::Background).run(async |_| ()).await.unwrap();
    place.is_clean("k").await;
}

pub async fn the_manager_says_for_how_long_if_a_request_does_not(place: Place) {
    if place.is_one_process() {
        return;
    }
    let one = place.builder().linger(LONG).connect().await.unwrap();
    let other = place.manager().await;
    one.lock("k").run(async |_| ()).await.unwrap();
    assert!(other.inspect("k").await.unwrap().is_some(), "it is kept");
    one.lock("k").linger(None).run(async |_| ()).await.unwrap();
    place.is_clean("k").await;
    // It is for those requests that it can be for.
    one.lock_all(["k", "l"]).acquire().await.unwrap().release().await.unwrap();
    place.is_clean("k").await;
    place.is_clean("l").await;
}

pub async fn a_lock_that_lingers_can_be_taken_away(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    lingering(&one, LONG).run(async |_| ()).await.unwrap();
    assert!(one.force_release("k").await.unwrap(), "it was held");
    eventually("it is free", async || other.inspect("k").await.unwrap().is_none()).await;
    other.lock("k").acquire().await.unwrap().release().await.unwrap();
    one.lock("k").acquire().await.unwrap().release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn it_is_refused_for_what_it_is_not_for(place: Place) {
    let manager = place.manager().await;
    let requests = [
        manager.lock("k").shared().linger(SHORT),
        manager.lock("k").max_holders(2).linger(SHORT),
        manager.lock("k").min_hold(SHORT).linger(SHORT),
        manager.lock_all(["k", "l"]).linger(SHORT),
        manager.lock("k").linger(Duration::ZERO),
        manager.lock("k").linger(Duration::from_secs(11)),
    ];
    for request in requests {
        let shown = format!("{request:?}");
        let error = request.acquire().await.unwrap_err();
        assert!(matches!(error, LockError::InvalidOptions { .. }), "{error:?}: {shown}");
    }
    for linger in [Duration::ZERO, Duration::from_secs(11)] {
        assert!(place.builder().linger(linger).connect_lazy().is_err());
    }
    place.is_clean("k").await;
}

pub async fn tokens_increase_from_section_to_section_and_to_the_next_process(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let mut last = None;
    for round in 0..5 {
        for _ in 0..5 {
            let guard = lingering(&one, SHORT).fenced().acquire().await.unwrap();
            let token = guard.fencing_token();
            assert!(token.is_some() && token > last, "round {round}: {token:?} after {last:?}");
            last = token;
            guard.release().await.unwrap();
        }
        let guard = other.lock("k").wait(PATIENT).fenced().acquire().await.unwrap();
        assert!(guard.fencing_token() > last, "round {round}: {:?} after {last:?}", guard.fencing_token());
        last = guard.fencing_token();
        guard.release().await.unwrap();
    }
    place.is_clean("k").await;
}
