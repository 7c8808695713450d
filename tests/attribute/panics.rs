//! A body that panics: the lock is released, the panic goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use distlock::{LockError, LockManager, distributed_lock};

#[distributed_lock(key = "k", manager = manager)]
async fn in_a_task(manager: LockManager) -> Result<(), LockError> {
    tokio::task::yield_now().await;
    panic!("the body's panic")
}

#[distributed_lock(key = "k", manager = manager)]
fn on_a_thread(manager: &LockManager) -> Result<(), LockError> {
    panic!("the body's panic")
}

#[tokio::test]
async fn a_panic_in_a_task_releases() {
    let manager = LockManager::in_memory();
    let error = tokio::spawn(in_a_task(manager.clone())).await.unwrap_err();
    assert_eq!(error.into_panic().downcast_ref(), Some(&"the body's panic"));
    manager.lock("k").wait(Duration::from_secs(5)).acquire().await.unwrap();
}

#[tokio::test]
async fn a_panic_on_a_thread_releases() {
    let manager = LockManager::in_memory();
    let panic = catch_unwind(AssertUnwindSafe(|| on_a_thread(&manager))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"the body's panic"));
    manager.lock("k").wait(Duration::from_secs(5)).acquire().await.unwrap();
}
