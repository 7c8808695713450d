//! The blocking API: the same rules for threads.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::LockError;
use crate::blocking::LockManager;
use crate::testing::conformance::Place;
use crate::testing::conformance::place::Tally;

/// Much longer than any test runs.
pub(super) const LONG: Duration = Duration::from_secs(120);
pub(super) const CROWD: u32 = 1_000;

/// A thousand threads with such stacks must fit into memory.
pub(super) fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::Builder::new().stack_size(256 * 1024).spawn(work).unwrap()
}

pub(super) async fn join<T: Send + 'static>(threads: Vec<JoinHandle<T>>) -> Vec<T> {
    let all =
        tokio::task::spawn_blocking(|| threads.into_iter().map(|thread| thread.join().unwrap()).collect());
    all.await.unwrap()
}

/// Starts threads that each count once under the lock.
pub(super) fn crowd(manager: &LockManager, tally: &Arc<Tally>) -> Vec<JoinHandle<Result<(), LockError>>> {
    let threads = (0..CROWD).map(|_| {
        let (request, tally) = (manager.lock("k").wait(LONG), tally.clone());
        spawn(move || request.run(|_| tally.increment_blocking()))
    });
    threads.collect()
}

pub async fn a_thousand_threads_take_turns(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let tally = Arc::new(Tally::default());
    let guard = one.lock("k").acquire().await.unwrap();
    let threads = crowd(&LockManager::from(other.clone()), &tally);
    place.until_waiting(&other, &other, "k", 1_000).await;
    guard.release().await.unwrap();
    for result in join(threads).await {
        result.unwrap();
    }
    assert_eq!(tally.value(), u64::from(CROWD));
    place.is_clean("k").await;
}

pub async fn a_worker_of_a_runtime_may_block(place: Place) {
    let (one, manager) = (place.manager().await, place.manager().await);
    let other = LockManager::from(manager.clone());
    let guard = one.lock("k").acquire().await.unwrap();
    // On a worker of this runtime, and on the only thread of another.
    let here = {
        let request = other.lock("k").wait(LONG);
        tokio::spawn(async move { request.run(|held| held.is_held()) })
    };
    let there = spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async { other.lock("k").wait(LONG).run(|held| held.is_held()) })
    });
    place.until_waiting(&one, &manager, "k", 1).await;
    guard.release().await.unwrap();
    assert!(here.await.unwrap().unwrap());
    assert!(join(vec![there]).await.remove(0).unwrap());
}

pub async fn a_thread_enters_again_what_it_holds(place: Place) {
    let manager = LockManager::from(place.manager().await);
    let nested = spawn(move || {
        manager.lock("k").run(|_| {
            let again = manager.lock("k").reentrant().run(|held| held.is_held());
            let refused = manager.lock("k").run(|_| ());
            (again, refused)
        })
    });
    let (again, refused) = join(vec![nested]).await.remove(0).unwrap();
    assert!(again.unwrap());
    assert!(matches!(refused, Err(LockError::WouldDeadlock { .. })), "{refused:?}");
}

pub async fn several_keys_are_for_threads_too(place: Place) {
    let manager = LockManager::from(place.manager().await);
    let tally = Arc::new(Tally::default());
    let threads = (0..16).map(|at| {
        let (manager, tally) = (manager.clone(), tally.clone());
        spawn(move || {
            let keys = if at % 2 == 0 { ["a", "b"] } else { ["b", "a"] };
            manager.lock_all(keys).wait(LONG).run(|_| tally.increment_blocking())
        })
    });
    for result in join(threads.collect()).await {
        result.unwrap();
    }
    assert_eq!(tally.value(), 16);
}
