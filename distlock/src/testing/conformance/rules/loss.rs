//! The loss of a lock by a forced release.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::testing::conformance::Place;
use crate::{LockError, LockManager, LockRequest};

pub async fn a_forced_release_reaches_the_holder_with_its_next_renewal(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let guard = one.lock("k").ttl(Duration::from_secs(3)).acquire().await.unwrap();
    other.force_release("k").await.unwrap();
    tokio::time::timeout(Duration::from_secs(20), guard.lost()).await.expect("the holder learns of it");
    assert!(!guard.is_held());
    assert!(guard.check().unwrap_err().is_lost());
}

/// None of these would be renewed within the test.
pub async fn a_forced_release_by_its_own_manager_reaches_the_holder_at_once(place: Place) {
    let manager = place.manager().await;
    let ttl = Duration::from_secs(3_600);
    for (key, request) in
        [("renewed", manager.lock("renewed")), ("unrenewed", manager.lock("unrenewed").no_renew())]
    {
        is_lost_at_once(&place, &manager, key, request.ttl(ttl)).await;
    }
}

pub(super) async fn is_lost_at_once(place: &Place, manager: &LockManager, key: &str, request: LockRequest) {
    let guard = request.acquire().await.unwrap();
    assert!(manager.force_release(key).await.unwrap());
    tokio::time::timeout(Duration::from_secs(20), guard.lost()).await.expect("the holder learns of it");
    assert!(guard.check().unwrap_err().is_lost());
    place.is_clean(key).await;
}

/// Set when dropped: the body was really dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

pub async fn the_body_of_run_stops_at_its_next_await(place: Place) {
    let manager = place.manager().await;
    let stopped = Arc::new(AtomicBool::new(false));
    let dropped = Dropped(stopped.clone());
    let body = manager.lock("k").ttl(Duration::from_millis(400)).no_renew().run(async move |_| {
        let _dropped = dropped;
        std::future::pending::<()>().await;
    });
    let error =
        tokio::time::timeout(Duration::from_secs(20), body).await.expect("the body is stopped").unwrap_err();
    assert!(matches!(error, LockError::Lost { .. }), "{error:?}");
    assert!(stopped.load(Ordering::SeqCst));
}

pub async fn a_body_that_completes_keeps_its_value(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let value = one.lock("k").ttl(Duration::from_secs(30)).run(async |_| {
        other.force_release("k").await.unwrap();
        7
    });
    assert_eq!(value.await.unwrap(), 7, "a refused release is not returned in its place");
}
