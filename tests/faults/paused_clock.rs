//! A test that pauses tokio's clock. Locks in memory work, and their times are real, as `LockManager::in_memory` says.

use std::time::{Duration, Instant};

use distlock::LockManager;

use super::{LONG, SOON};

#[tokio::test(start_paused = true)]
async fn free_locks_and_hand_offs_need_no_clock() {
    let manager = LockManager::in_memory();
    let guard = manager.lock("k").acquire().await.unwrap();
    let waiting = tokio::spawn(manager.lock("k").wait(LONG).acquire());
    while manager.inspect("k").await.unwrap().unwrap().waiters_here == 0 {
        tokio::task::yield_now().await;
    }
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wait_and_a_lease_are_as_long_as_they_say() {
    let manager = LockManager::in_memory();
    let ttl = Duration::from_millis(300);
    let start = Instant::now();
    let guard = manager.lock("k").ttl(ttl).no_renew().acquire().await.unwrap();
    // Tokio skips this time, but the lease does not.
    tokio::time::sleep(LONG).await;
    assert!(guard.is_held() || start.elapsed() >= ttl);
    let wait = Duration::from_millis(50);
    let (start, other) = (Instant::now(), manager.lock("other").acquire().await.unwrap());
    assert!(manager.lock("other").wait(wait).acquire().await.unwrap_err().is_busy());
    assert!(start.elapsed() >= wait && start.elapsed() < SOON, "{:?}", start.elapsed());
    other.release().await.unwrap();
    assert!(guard.lost().await.is_lost());
    assert!(guard.release().await.unwrap_err().is_lost());
}
