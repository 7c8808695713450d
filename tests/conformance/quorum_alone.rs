//! The abilities that a quorum does not have.

use distlock::{LockError, LockManager, distributed_lock};
use distlock_tests::Backend;

distlock_tests::suite![;
    only on quorum:
    shared_and_limited_locks_are_refused_with_the_reason,
    a_kind_that_a_quorum_does_not_offer_is_an_error_and_runs_nothing,
];

async fn shared_and_limited_locks_are_refused_with_the_reason(backend: Backend) {
    let manager = backend.manager().await;
    for request in [manager.lock("k").shared(), manager.lock("k").max_holders(2)] {
        let error = request.acquire().await.unwrap_err();
        assert!(matches!(error, LockError::InvalidOptions { .. }), "{error:?}");
        assert!(error.to_string().contains("not offered on a quorum"), "{error}");
    }
    backend.is_clean("k").await;
}

#[distributed_lock(key = "page", mode = "shared", manager = locks)]
async fn read(locks: &LockManager, together: &tokio::sync::Barrier) -> Result<bool, LockError> {
    together.wait().await;
    Ok(locks.lock("page").label("writer").no_wait().acquire().await.is_err())
}

#[distributed_lock(key = "export", max_holders = 2, wait = "30s", manager = locks)]
async fn export(locks: &LockManager, running: &tokio::sync::Semaphore) -> Result<(), LockError> {
    let _one_of_two = running.try_acquire().expect("a third holder");
    tokio::task::yield_now().await;
    Ok(())
}

async fn a_kind_that_a_quorum_does_not_offer_is_an_error_and_runs_nothing(backend: Backend) {
    let manager = backend.manager().await;
    let nobody_comes = tokio::sync::Barrier::new(2);
    let error = read(&manager, &nobody_comes).await.unwrap_err();
    assert!(matches!(error, LockError::InvalidOptions { .. }), "{error:?}");
    let no_room = tokio::sync::Semaphore::new(0);
    let error = export(&manager, &no_room).await.unwrap_err();
    assert!(matches!(error, LockError::InvalidOptions { .. }), "{error:?}");
}
