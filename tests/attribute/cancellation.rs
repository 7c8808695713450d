//! A dropped future releases its lock.

use std::time::Duration;

use distlock::{LockError, LockManager, distributed_lock};

use crate::support::{is_busy, until_free};

#[distributed_lock(key = "k", manager = manager)]
async fn forever(manager: &LockManager) -> Result<(), LockError> {
    std::future::pending().await
}

#[tokio::test]
async fn dropping_the_future_in_the_body_releases() {
    let manager = LockManager::in_memory();
    let call = tokio::time::timeout(Duration::from_millis(20), forever(&manager));
    call.await.unwrap_err();
    until_free(&manager, "k").await;
}

#[tokio::test]
async fn dropping_the_future_while_it_waits_leaves_nothing() {
    let manager = LockManager::in_memory();
    let guard = manager.lock("k").acquire().await.unwrap();
    let call = tokio::time::timeout(Duration::from_millis(20), forever(&manager));
    call.await.unwrap_err();
    guard.release().await.unwrap();
    assert!(!is_busy(&manager, "k").await);
}

#[tokio::test]
async fn a_future_that_was_never_polled_did_nothing() {
    let manager = LockManager::in_memory();
    let call = forever(&manager);
    assert!(!is_busy(&manager, "k").await);
    drop(call);
}

#[tokio::test]
async fn aborting_the_task_releases() {
    let manager = LockManager::in_memory();
    let task = tokio::spawn({
        let manager = manager.clone();
        async move { forever(&manager).await }
    });
    while !is_busy(&manager, "k").await {
        tokio::task::yield_now().await;
    }
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    until_free(&manager, "k").await;
}
