//! The user's runtime is dropped while guards and requests exist.

use distlock::LockManager;
use distlock_tests::{Backend, RedisServer, residue};
use tokio::runtime::Runtime;

use super::{LONG, connect};

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_that_outlives_its_runtime_is_kept_and_can_be_dropped() {
    let server = RedisServer::start();
    let url = server.url();
    let guard = std::thread::spawn(move || {
        let runtime = runtime();
        runtime.block_on(async {
            let manager = LockManager::connect(&url).await.unwrap();
            manager.lock("k").ttl(LONG).acquire().await.unwrap()
        })
    });
    let guard = tokio::task::spawn_blocking(move || guard.join().unwrap()).await.unwrap();
    guard.check().unwrap();
    assert!(server.exists("k"));
    std::thread::spawn(move || drop(guard)).join().unwrap();
    residue::none(&server).await;
}

distlock_tests::suite![a_runtime_dropped_with_everything_in_it_leaves_nothing, runtimes_share_one_manager];

async fn a_runtime_dropped_with_everything_in_it_leaves_nothing(backend: Backend) {
    let manager = backend.manager().await;
    let inner = manager.clone();
    std::thread::spawn(move || {
        let runtime = runtime();
        runtime.block_on(async {
            let guard = inner.lock("k").ttl(LONG).acquire().await.unwrap();
            let waiter = inner.clone();
            tokio::spawn(async move { waiter.lock("k").ttl(LONG).wait(LONG).acquire().await.map(drop) });
            tokio::spawn(async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            });
            tokio::task::yield_now().await;
        });
        drop(runtime);
    })
    .join()
    .unwrap();
    backend.is_clean("k").await;
}

async fn runtimes_share_one_manager(backend: Backend) {
    let manager = backend.manager().await;
    let threads: Vec<_> = (0..4)
        .map(|_| manager.clone())
        .map(|manager| {
            std::thread::spawn(move || {
                runtime().block_on(async {
                    for _ in 0..5 {
                        manager.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
                    }
                });
            })
        })
        .collect();
    tokio::task::spawn_blocking(move || threads.into_iter().for_each(|thread| thread.join().unwrap()))
        .await
        .unwrap();
    backend.is_clean("k").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_outlives_the_runtime_that_connected_it() {
    let server = RedisServer::start();
    let url = server.url();
    let manager = std::thread::spawn(move || runtime().block_on(LockManager::connect(&url)).unwrap());
    let manager = tokio::task::spawn_blocking(move || manager.join().unwrap()).await.unwrap();
    let guard = manager.lock("k").acquire().await.unwrap();
    assert!(connect(&server).await.lock("k").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
}
