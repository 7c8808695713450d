//! A second `init` returns the manager and changes nothing. The test needs a separate process, because `init` cannot be
//! undone.

#![allow(clippy::unwrap_used)]

use distlock::{LockError, LockManager, distributed_lock};

#[distributed_lock(key = "job:<id>", wait = "0s")]
async fn job(id: u32) -> Result<u32, LockError> {
    Ok(id)
}

#[tokio::test]
async fn the_second_manager_comes_back_and_the_first_stays() {
    let (first, second) = (LockManager::in_memory(), LockManager::in_memory());
    distlock::init(first.clone()).unwrap();
    let returned = distlock::init(second).unwrap_err();
    let _guard = first.lock("job:7").acquire().await.unwrap();
    assert!(job(7).await.unwrap_err().is_busy(), "the attribute uses the first");
    returned.lock("job:7").no_wait().acquire().await.unwrap().release().await.unwrap();
    assert_eq!(job(8).await.unwrap(), 8);
}
