//! `mode = "shared"` and `max_holders`.

use distlock::{LockError, LockManager, distributed_lock};
use tokio::sync::{Barrier, Semaphore};

use crate::support::locked;

#[distributed_lock(key = "k", mode = "shared", wait = "0s")]
async fn read(together: &Barrier) -> Result<(), LockError> {
    together.wait().await;
    Ok(())
}

#[distributed_lock(key = "k", wait = "0s")]
async fn write() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "k", mode = "shared")]
async fn write_while_reading() -> Result<(), LockError> {
    tokio::spawn(distlock::with_manager(LockManager::current()?, write()))
        .await
        .unwrap_or_else(|_| Err(LockError::lost("k")))
}

#[distributed_lock(key = "k", mode = "exclusive")]
async fn exclusive() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "limited", max_holders = 2, wait = "0s")]
async fn limited(gate: &Semaphore) -> Result<(), LockError> {
    gate.acquire().await.unwrap().forget();
    Ok(())
}

#[distributed_lock(key = "limited:<limit>", max_holders = limit, wait = "0s")]
async fn limited_by_an_argument(limit: u32, together: &Barrier) -> Result<(), LockError> {
    together.wait().await;
    Ok(())
}

#[distributed_lock(key = "k", mode = "shared", manager = manager)]
fn read_on_a_thread(manager: &LockManager, together: &std::sync::Barrier) -> Result<(), LockError> {
    together.wait();
    Ok(())
}

#[tokio::test]
async fn readers_are_together_and_writers_alone() {
    locked(async {
        let together = Barrier::new(2);
        let (first, second) = tokio::join!(read(&together), read(&together));
        first.unwrap();
        second.unwrap();
        assert!(write_while_reading().await.unwrap_err().is_busy());
        exclusive().await.unwrap();
        write().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn so_many_and_no_more() {
    locked(async {
        let gate = Semaphore::new(0);
        let third = async {
            let result = limited(&gate).await;
            gate.add_permits(2);
            result
        };
        let (first, second, third) = tokio::join!(limited(&gate), limited(&gate), third);
        first.unwrap();
        second.unwrap();
        assert!(third.unwrap_err().is_busy());
        let together = Barrier::new(3);
        let call = || limited_by_an_argument(3, &together);
        let calls = tokio::join!(call(), call(), call());
        calls.0.unwrap();
        calls.1.unwrap();
        calls.2.unwrap();
    })
    .await;
}

#[test]
fn readers_on_threads() {
    let (manager, together) = (LockManager::in_memory(), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| read_on_a_thread(&manager, &together));
        read_on_a_thread(&manager, &together).unwrap();
        other.join().unwrap().unwrap();
    });
}
