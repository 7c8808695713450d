//! `guard = name`, `token = name`.

use distlock::{FencingToken, LockError, LockManager, distributed_lock};

use crate::support::locked;

#[distributed_lock(key = "k:<id>", guard = lock, token = fence)]
async fn both(id: u64) -> Result<(String, FencingToken), LockError> {
    lock.check()?;
    assert!(lock.is_held());
    assert_eq!(lock.fencing_token(), Some(fence));
    tokio::task::yield_now().await;
    Ok((lock.key().to_owned(), fence))
}

#[distributed_lock(key = "k", token = token, manager = manager)]
fn on_a_thread(manager: &LockManager) -> Result<FencingToken, LockError> {
    Ok(token)
}

#[distributed_lock(key = "k", guard = guard, manager = manager)]
fn guard_on_a_thread(manager: &LockManager) -> Result<String, LockError> {
    guard.check()?;
    Ok(guard.key().to_owned())
}

#[distributed_lock(key = "k", guard = guard)]
async fn without_token() -> Result<bool, LockError> {
    Ok(guard.fencing_token().is_none())
}

#[distributed_lock(key = "k", guard = guard)]
async fn loss_is_given_to_children() -> Result<(), LockError> {
    let lost = guard.lost();
    let child = tokio::spawn(async move {
        tokio::select! {
            _ = lost => false,
            () = tokio::task::yield_now() => true,
        }
    });
    assert!(child.await.unwrap());
    Ok(())
}

#[tokio::test]
async fn the_body_can_use_them() {
    locked(async {
        let (key, first) = both(1).await.unwrap();
        assert_eq!(key, "k:1");
        let (_, second) = both(1).await.unwrap();
        assert!(second > first);
        assert!(without_token().await.unwrap());
        loss_is_given_to_children().await.unwrap();
    })
    .await;
}

#[test]
fn a_thread_can_use_them() {
    let manager = LockManager::in_memory();
    let first = on_a_thread(&manager).unwrap();
    assert!(on_a_thread(&manager).unwrap() > first);
    assert_eq!(guard_on_a_thread(&manager).unwrap(), "k");
}
