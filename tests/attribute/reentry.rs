//! Nested calls on the same key.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use distlock::{FencingToken, LockError, LockManager, distributed_lock, is_held_here, with_manager};

use crate::support::{assert_held, locked};

#[distributed_lock(key = "k", wait = "0s")]
async fn inner() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k")]
async fn outer() -> Result<(), LockError> {
    assert!(is_held_here("k"));
    inner().await
}

#[distributed_lock(key = "k", reentrant = true)]
async fn reentrant() -> Result<(), LockError> {
    tokio::task::yield_now().await;
    Ok(())
}

#[distributed_lock(key = "k")]
async fn enters_again() -> Result<(), LockError> {
    reentrant().await?;
    assert_held("k").await;
    Ok(())
}

#[distributed_lock(key = "k", manager = manager)]
async fn with_another_manager(manager: &LockManager) -> Result<(), LockError> {
    inner().await
}

#[distributed_lock(key = "k")]
async fn spawns() -> Result<(), LockError> {
    let manager = LockManager::current()?;
    let child = tokio::spawn(with_manager(manager, async {
        assert!(!is_held_here("k"));
        inner().await
    }));
    assert!(child.await.unwrap().unwrap_err().is_busy());
    Ok(())
}

#[distributed_lock(key = "branch:<id>")]
async fn branch(id: u8) -> Result<(), LockError> {
    tokio::task::yield_now().await;
    assert!(is_held_here(format!("branch:{id}")));
    assert!(!is_held_here(format!("branch:{}", 1 - id)));
    tokio::task::yield_now().await;
    Ok(())
}

#[distributed_lock(key = "k", manager = manager, wait = "0s")]
fn inner_on_a_thread(manager: &LockManager) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", manager = manager)]
fn outer_on_a_thread(manager: &LockManager) -> Result<(), LockError> {
    assert!(is_held_here("k"));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| inner_on_a_thread(manager).unwrap_err().is_busy());
        assert!(other.join().unwrap());
    });
    inner_on_a_thread(manager)
}

#[distributed_lock(key = "k", manager = manager, reentrant = true)]
fn reentrant_on_a_thread(manager: &LockManager, depth: u8) -> Result<u8, LockError> {
    if depth == 0 { Ok(0) } else { Ok(1 + reentrant_on_a_thread(manager, depth - 1)?) }
}

#[tokio::test]
async fn a_nested_call_would_deadlock_and_says_so_at_once() {
    locked(async {
        assert!(matches!(outer().await, Err(LockError::WouldDeadlock { .. })));
        assert!(!is_held_here("k"));
        inner().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_reentrant_call_enters() {
    locked(async {
        enters_again().await.unwrap();
        reentrant().await.unwrap();
    })
    .await;
}

#[distributed_lock(key = "b", reentrant = true, token = token)]
async fn fenced_again() -> Result<FencingToken, LockError> {
    Ok(token)
}

/// The section around it has several locks, and one of them has a token.
#[tokio::test]
async fn the_token_of_a_reentrant_call_is_that_of_its_own_key() {
    locked(async {
        let manager = LockManager::current().unwrap();
        for (with_token, is_granted) in [("a", false), ("b", true)] {
            let outer = manager.lock(with_token).fenced().run(async |held| {
                let both = manager.lock_all(["a", "b"]).reentrant();
                (held.fencing_token(), both.run(async |_| fenced_again().await).await.unwrap())
            });
            match outer.await.unwrap() {
                (token, Ok(again)) => assert!(is_granted && token == Some(again), "{again:?}"),
                (_, Err(LockError::InvalidOptions { reason, .. })) => assert!(!is_granted, "{reason}"),
                (_, Err(error)) => panic!("{error}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn another_manager_is_another_lock() {
    locked(async { with_another_manager(&LockManager::in_memory()).await.unwrap() }).await;
}

#[tokio::test]
async fn a_spawned_task_is_not_nested() {
    locked(async { spawns().await.unwrap() }).await;
}

/// Its first poll was inside the section of `k`, so it was nested there.
#[tokio::test]
async fn a_section_that_moves_to_another_task_is_no_longer_nested() {
    for by_manager in [false, true] {
        let manager = LockManager::in_memory();
        let outer = manager.lock("k").run(async |_| {
            let (around, nested) = (manager.clone(), manager.clone());
            let body = async move {
                assert!(is_held_here("k"));
                tokio::task::yield_now().await;
                assert!(!is_held_here("k"));
                nested.lock("k").reentrant().no_wait().acquire().await.unwrap_err().is_busy()
            };
            let inner = async move {
                if by_manager {
                    with_manager(around, body).await
                } else {
                    around.lock("b").run(async |_| body.await).await.unwrap()
                }
            };
            let mut inner = Box::pin(inner);
            assert!(poll_once(inner.as_mut()).is_pending());
            assert!(tokio::spawn(inner).await.unwrap());
        });
        outer.await.unwrap();
    }
}

/// It is polled for the first time inside a section that ends before it.
#[tokio::test]
async fn a_section_that_leaves_an_inner_one_stays_nested_in_the_outer_one() {
    let manager = LockManager::in_memory();
    let outer = manager.lock("k").run(async |_| {
        let body = async {
            tokio::task::yield_now().await;
            assert!(is_held_here("k") && !is_held_here("between"));
            manager.lock("k").reentrant().no_wait().acquire().await.unwrap().release().await.unwrap();
        };
        let mut inner = Box::pin(manager.lock("b").run(async |_| body.await));
        let between = manager.lock("between").run(async |_| poll_once(inner.as_mut()).is_pending());
        assert!(between.await.unwrap());
        inner.await.unwrap();
    });
    outer.await.unwrap();
}

/// The memory backend replies without a wait.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn branches_of_a_join_are_not_nested_in_each_other() {
    locked(async {
        let (first, second) = tokio::join!(branch(0), branch(1));
        first.unwrap();
        second.unwrap();
        // With the same key, they run one after the other, without a deadlock.
        let (first, second) = tokio::join!(reentrant(), reentrant());
        first.unwrap();
        second.unwrap();
    })
    .await;
}

#[test]
fn the_same_on_a_thread() {
    let manager = LockManager::in_memory();
    assert!(matches!(outer_on_a_thread(&manager), Err(LockError::WouldDeadlock { .. })));
    assert!(!is_held_here("k"));
    assert_eq!(reentrant_on_a_thread(&manager, 3).unwrap(), 3);
}

/// A task of a `LocalSet` that the body drives runs on the body's thread, while the body is polled.
#[tokio::test]
async fn a_task_on_the_same_thread_is_not_nested() {
    locked(async {
        let manager = LockManager::current().unwrap();
        let outer = manager.lock("k").run(async |_| {
            let local = tokio::task::LocalSet::new();
            local
                .run_until(async {
                    assert!(is_held_here("k"), "this is the body itself");
                    tokio::task::spawn_local(async {
                        assert!(!is_held_here("k"));
                        assert!(LockManager::current().is_ok());
                        inner().await.unwrap_err().is_busy()
                    })
                    .await
                })
                .await
        });
        assert!(outer.await.unwrap().unwrap());
    })
    .await;
}

/// A body that blocks on its own runtime waits for itself. A task that it spawns there is a different task.
#[test]
fn a_runtime_that_the_body_drives() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let manager = distlock::blocking::LockManager::in_memory();
    distlock::blocking::with_manager(manager.clone(), || {
        let section = manager.lock("k").run(|_| {
            runtime.block_on(async {
                assert!(matches!(inner().await, Err(LockError::WouldDeadlock { .. })));
                let spawned = tokio::spawn(async { inner().await.unwrap_err().is_busy() });
                assert!(spawned.await.unwrap());
            });
        });
        section.unwrap();
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_blocks_its_worker_is_the_same_task() {
    let manager = LockManager::in_memory();
    let nested = with_manager(manager.clone(), async {
        let section = manager.lock("k").run(async |_| {
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(inner()))
        });
        section.await.unwrap()
    });
    assert!(matches!(nested.await, Err(LockError::WouldDeadlock { .. })));
}
