//! After a panic of the body, the lock is released, and the panic continues.

use std::panic::{AssertUnwindSafe, catch_unwind};

use distlock::{LockError, LockManager, distributed_lock};

use crate::support::until_free;

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
    until_free(&manager, "k").await;
}

#[tokio::test]
async fn a_panic_on_a_thread_releases() {
    let manager = LockManager::in_memory();
    let panic = catch_unwind(AssertUnwindSafe(|| on_a_thread(&manager))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"the body's panic"));
    until_free(&manager, "k").await;
}
