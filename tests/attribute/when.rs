//! `when = expr`.

use distlock::{LockError, LockManager, distributed_lock};

use crate::support::{is_busy_here, locked};

#[distributed_lock(key = "k", when = amount > 100)]
async fn large_only(amount: u64) -> Result<bool, LockError> {
    Ok(is_busy_here("k").await)
}

#[distributed_lock(key = "k", when = large(&amount).await?)]
async fn asked(amount: String) -> Result<bool, LockError> {
    drop(amount);
    Ok(is_busy_here("k").await)
}

async fn large(amount: &str) -> Result<bool, LockError> {
    amount.parse::<u64>().map(|amount| amount > 100).map_err(|_| LockError::busy("unreadable"))
}

#[distributed_lock(key = "k", when = locking, manager = manager)]
fn on_a_thread(manager: &LockManager, locking: bool) -> Result<bool, LockError> {
    Ok(distlock::is_held_here("k"))
}

#[tokio::test]
async fn the_body_runs_without_the_lock_when_it_is_false() {
    locked(async {
        assert!(large_only(101).await.unwrap());
        assert!(!large_only(100).await.unwrap());
        assert!(asked("101".into()).await.unwrap());
        assert!(!asked("1".into()).await.unwrap());
        assert!(asked("x".into()).await.unwrap_err().is_busy());
    })
    .await;
    let manager = LockManager::in_memory();
    assert!(on_a_thread(&manager, true).unwrap());
    assert!(!on_a_thread(&manager, false).unwrap());
}
