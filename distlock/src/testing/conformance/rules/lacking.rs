//! Replaces the rules that do not apply: the ability is really missing.

use std::time::Duration;

use crate::testing::conformance::{Place, Processes, Queue};
use crate::{LockError, LockRequest};

/// Refused with a reason, before anything is asked.
async fn is_refused(place: &Place, request: LockRequest) {
    let error = request.acquire().await.unwrap_err();
    assert!(matches!(error, LockError::InvalidOptions { .. }), "{error:?}");
    place.is_clean("k").await;
}

pub async fn shared(place: Place) {
    is_refused(&place, place.manager().await.lock("k").shared()).await;
}

pub async fn limited(place: Place) {
    is_refused(&place, place.manager().await.lock("k").max_holders(2)).await;
}

pub async fn fencing(place: Place) {
    is_refused(&place, place.manager().await.lock("k").fenced()).await;
    let refused = place.manager().await.leader("k").run(async |_| ()).await;
    assert!(matches!(refused, Err(LockError::InvalidOptions { .. })), "{refused:?}");
}

pub async fn min_hold(place: Place) {
    is_refused(&place, place.manager().await.lock("k").min_hold(Duration::from_secs(1))).await;
}

pub async fn listing(place: Place) {
    let refused = place.manager().await.list("*").next().await;
    assert!(matches!(refused, Some(Err(LockError::InvalidOptions { .. }))), "{refused:?}");
}

pub async fn values(place: Place) {
    let refused = place.manager().await.leader("k").value("here").run(async |_| ()).await;
    assert!(matches!(refused, Err(LockError::InvalidOptions { .. })), "{refused:?}");
    place.is_clean("k").await;
}

/// Deadlock detection is refused, so that a program does not rely on deadlocks that are never found.
pub async fn deadlocks(place: Place) {
    let refused = place.builder().break_deadlocks(true).connect_lazy();
    assert!(matches!(refused, Err(LockError::InvalidOptions { .. })), "{refused:?}");
    let refused = place.manager().await.deadlocks().await;
    assert!(matches!(refused, Err(LockError::InvalidOptions { .. })), "{refused:?}");
}

pub async fn hand_over(place: Place) {
    let manager = place.manager().await;
    let refused = manager.check_hand_over();
    assert!(matches!(refused, Err(LockError::InvalidOptions { .. })), "{refused:?}");
    let guard = manager.lock("k").acquire().await.unwrap();
    let refused = guard.hand_over().await;
    assert!(matches!(refused, Err(LockError::InvalidOptions { .. })), "{refused:?}");
    place.is_clean("k").await;
}

pub async fn linger(place: Place) {
    let linger = Duration::from_millis(50);
    is_refused(&place, place.manager().await.lock("k").linger(linger)).await;
    let refused = place.builder().linger(linger).connect_lazy();
    assert!(matches!(refused, Err(LockError::InvalidOptions { .. })), "{refused:?}");
}

pub async fn processes(place: Place) {
    assert_eq!(place.processes(), Processes::One, "managers are like processes of their own");
}

pub async fn queue(place: Place) {
    assert_eq!(place.queue(), Queue::Hidden, "the queue is shown");
    let (one, other) = (place.manager().await, place.manager().await);
    let guard = one.lock("k").acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("k").wait(Duration::from_secs(600)).acquire());
    place.until_waiting(&one, &other, "k", 1).await;
    assert_eq!(one.inspect("k").await.unwrap().unwrap().waiters, 0, "it shows a queue");
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}
