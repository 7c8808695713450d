//! The blocking API: the same rules for threads.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use distlock::{LockError, blocking::LockManager};
use distlock_tests::{Backend, RedisServer, Tally, until_waiting};

/// Much longer than any test runs.
const LONG: Duration = Duration::from_secs(120);
const CROWD: u32 = 1_000;

distlock_tests::suite![
    a_thousand_threads_are_one_place_in_the_queue,
    a_worker_of_a_runtime_may_block,
    a_thread_enters_again_what_it_holds,
    several_keys_are_for_threads_too;
    not on quorum:
    readers_and_holders_of_a_limited_lock_are_threads_too,
];

/// A thousand of these are to fit.
fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::Builder::new().stack_size(256 * 1024).spawn(work).unwrap()
}

async fn join<T: Send + 'static>(threads: Vec<JoinHandle<T>>) -> Vec<T> {
    let all =
        tokio::task::spawn_blocking(|| threads.into_iter().map(|thread| thread.join().unwrap()).collect());
    all.await.unwrap()
}

/// Starts threads that each count once under the lock.
fn crowd(manager: &LockManager, tally: &Arc<Tally>) -> Vec<JoinHandle<Result<(), LockError>>> {
    let threads = (0..CROWD).map(|_| {
        let (request, tally) = (manager.lock("k").wait(LONG), tally.clone());
        spawn(move || request.run(|_| tally.increment_blocking()))
    });
    threads.collect()
}

async fn a_thousand_threads_are_one_place_in_the_queue(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let tally = Arc::new(Tally::default());
    let guard = one.lock("k").acquire().await.unwrap();
    let threads = crowd(&LockManager::from(other.clone()), &tally);
    until_waiting(&other, "k", u64::from(CROWD)).await;
    if !backend.is_memory() {
        assert_eq!(one.inspect("k").await.unwrap().unwrap().waiters, 1);
    }
    guard.release().await.unwrap();
    for result in join(threads).await {
        result.unwrap();
    }
    assert_eq!(tally.value(), u64::from(CROWD));
    backend.is_clean("k").await;
}

async fn a_worker_of_a_runtime_may_block(backend: Backend) {
    let (one, other) = (backend.manager().await, LockManager::from(backend.manager().await));
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
    until_waiting(&one, "k", 1).await;
    guard.release().await.unwrap();
    assert!(here.await.unwrap().unwrap());
    assert!(join(vec![there]).await.remove(0).unwrap());
}

async fn a_thread_enters_again_what_it_holds(backend: Backend) {
    let manager = LockManager::from(backend.manager().await);
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

async fn several_keys_are_for_threads_too(backend: Backend) {
    let manager = LockManager::from(backend.manager().await);
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

async fn readers_and_holders_of_a_limited_lock_are_threads_too(backend: Backend) {
    let manager = LockManager::from(backend.manager().await);
    let (inside, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let threads = (0..24).map(|_| {
        let (manager, inside, most) = (manager.clone(), inside.clone(), most.clone());
        spawn(move || {
            manager.lock("limited").max_holders(3).wait(LONG).run(|_| {
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
            })
        })
    });
    for result in join(threads.collect()).await {
        result.unwrap();
    }
    assert!(most.load(Ordering::SeqCst) <= 3);
    let reader = manager.lock("shared").shared().acquire();
    let (both, writer) = join(vec![spawn(move || {
        let both = manager.lock("shared").shared().try_acquire().map(|guard| guard.is_some());
        (both, manager.lock("shared").try_acquire().map(|guard| guard.is_some()))
    })])
    .await
    .remove(0);
    assert!(both.unwrap() && !writer.unwrap());
    reader.unwrap().release().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_threads_share_the_two_connections_of_their_manager() {
    let server = RedisServer::start();
    let connect = || distlock::LockManager::connect(server.url());
    let (one, other) = (connect().await.unwrap(), connect().await.unwrap());
    let tally = Arc::new(Tally::default());
    let guard = one.lock("k").acquire().await.unwrap();
    let threads = crowd(&LockManager::from(other.clone()), &tally);
    until_waiting(&other, "k", u64::from(CROWD)).await;
    let clients = server.text(&["CLIENT", "LIST"]);
    // For commands and for pushes, of either manager; the fixture looks in as a user of its own.
    assert_eq!(clients.lines().filter(|line| line.contains("user=default")).count(), 4, "{clients}");
    guard.release().await.unwrap();
    for result in join(threads).await {
        result.unwrap();
    }
    assert_eq!(tally.value(), u64::from(CROWD));
}
