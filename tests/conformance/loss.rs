//! What happens to a holder whose lock is taken away.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use distlock::LockError;
use distlock_tests::Backend;

distlock_tests::suite![
    a_forced_release_reaches_the_holder_with_its_next_renewal,
    a_forced_release_by_its_own_manager_reaches_the_holder_at_once,
    the_body_of_run_stops_at_its_next_await,
    a_body_that_completes_keeps_its_value,
];

async fn a_forced_release_reaches_the_holder_with_its_next_renewal(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let guard = one.lock("k").ttl(Duration::from_secs(3)).acquire().await.unwrap();
    other.force_release("k").await.unwrap();
    tokio::time::timeout(Duration::from_secs(20), guard.lost()).await.expect("the holder learns of it");
    assert!(!guard.is_held());
    assert!(guard.check().unwrap_err().is_lost());
}

/// None of these would be renewed within the test.
async fn a_forced_release_by_its_own_manager_reaches_the_holder_at_once(backend: Backend) {
    let manager = backend.manager().await;
    let ttl = Duration::from_secs(3_600);
    for (key, request) in [
        ("renewed", manager.lock("renewed")),
        ("unrenewed", manager.lock("unrenewed").no_renew()),
        ("shared", manager.lock("shared").shared()),
        ("limited", manager.lock("limited").max_holders(2)),
    ] {
        let guard = request.ttl(ttl).acquire().await.unwrap();
        assert!(manager.force_release(key).await.unwrap());
        tokio::time::timeout(Duration::from_secs(20), guard.lost()).await.expect("the holder learns of it");
        assert!(guard.check().unwrap_err().is_lost());
        backend.is_clean(key).await;
    }
}

/// Set when dropped: the body has been stopped, not forgotten.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

async fn the_body_of_run_stops_at_its_next_await(backend: Backend) {
    let manager = backend.manager().await;
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

async fn a_body_that_completes_keeps_its_value(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let value = one.lock("k").ttl(Duration::from_secs(30)).run(async |_| {
        other.force_release("k").await.unwrap();
        7
    });
    assert_eq!(value.await.unwrap(), 7, "a refused release is not returned in its place");
}
