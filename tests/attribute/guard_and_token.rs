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

#[distributed_lock(key = "k", guard = guard)]
async fn children_get_a_handle_of_their_own() -> Result<(), LockError> {
    let handle = guard.clone();
    let child = tokio::spawn(async move { handle.check().map(|()| handle.key().to_owned()) });
    assert_eq!(child.await.unwrap()?, "k");
    Ok(())
}

fn takes_a_guard(guard: &distlock::Guard) -> bool {
    guard.is_held()
}

struct Context<'a> {
    guard: &'a distlock::Guard,
}

#[distributed_lock(key = "k", guard = guard)]
async fn as_a_reference_to_a_guard() -> Result<bool, LockError> {
    let renamed: &distlock::Guard = guard;
    let context = Context { guard };
    tokio::task::yield_now().await;
    Ok(takes_a_guard(guard) && takes_a_guard(renamed) && context.guard.is_held())
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
        children_get_a_handle_of_their_own().await.unwrap();
        assert!(as_a_reference_to_a_guard().await.unwrap());
    })
    .await;
}

#[distributed_lock(key = "k", guard = guard, manager = manager)]
async fn leaves_a_handle(
    manager: &LockManager,
    handles: tokio::sync::mpsc::UnboundedSender<distlock::Held>,
) -> Result<(), LockError> {
    handles.send(guard.clone()).map_err(|_| LockError::Closed)?;
    std::future::pending().await
}

#[tokio::test]
async fn a_clone_of_the_guard_does_not_keep_the_lock_of_a_dropped_call() {
    let manager = LockManager::in_memory();
    let (sender, mut handles) = tokio::sync::mpsc::unbounded_channel();
    let handle = tokio::select! {
        result = leaves_a_handle(&manager, sender) => panic!("{result:?}"),
        handle = handles.recv() => handle.unwrap(),
    };
    crate::support::until_free(&manager, "k").await;
    assert!(!handle.is_held());
}

#[test]
fn a_thread_can_use_them() {
    let manager = LockManager::in_memory();
    let first = on_a_thread(&manager).unwrap();
    assert!(on_a_thread(&manager).unwrap() > first);
    assert_eq!(guard_on_a_thread(&manager).unwrap(), "k");
}
