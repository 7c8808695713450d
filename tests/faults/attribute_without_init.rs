//! Without a manager, an annotated function returns an error, and does not run without a lock.

use std::sync::atomic::{AtomicBool, Ordering};

use distlock::{LockError, LockManager, distributed_lock};

static RAN: AtomicBool = AtomicBool::new(false);

#[distributed_lock(key = "job:<id>")]
async fn job(id: u32) -> Result<u32, LockError> {
    RAN.store(true, Ordering::SeqCst);
    Ok(id)
}

#[tokio::test]
async fn the_body_does_not_run_and_the_error_names_the_remedy() {
    let error = job(7).await.unwrap_err();
    assert!(matches!(error, LockError::NotInitialized), "{error:?}");
    assert!(error.to_string().contains("init"), "{error}");
    // The handlers of a server are in this situation.
    let in_a_task = distlock::with_manager(LockManager::in_memory(), async { tokio::spawn(job(7)).await });
    let error = in_a_task.await.unwrap().unwrap_err();
    for remedy in ["spawned tasks", "LockManager::current()", "manager = state.locks"] {
        assert!(error.to_string().contains(remedy), "{error}");
    }
    assert!(!RAN.load(Ordering::SeqCst));
    assert_eq!(distlock::with_manager(LockManager::in_memory(), job(7)).await.unwrap(), 7);
}
