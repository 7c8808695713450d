//! The effects of a lost lease.

use std::time::Duration;

use distlock::{LockError, LockManager, distributed_lock};

use crate::support::{Log, SHORT, locked};

#[distributed_lock(key = "k", ttl = "300ms", renew = false)]
async fn cancelled(log: Log) -> Result<(), LockError> {
    log.add("started");
    tokio::time::sleep(Duration::from_secs(60)).await;
    log.add("finished");
    Ok(())
}

#[distributed_lock(key = "k", ttl = "100ms", renew = false, on_lost = "continue")]
async fn continued(log: Log) -> Result<u8, LockError> {
    tokio::time::sleep(SHORT * 3).await;
    log.add("finished");
    Ok(1)
}

#[distributed_lock(key = "k", ttl = "300ms", renew = false, guard = guard)]
async fn finished_late_without_waiting() -> Result<u8, LockError> {
    while guard.is_held() {
        std::thread::sleep(SHORT);
    }
    Ok(1)
}

#[distributed_lock(key = "k", ttl = "100ms", renew = false, manager = manager)]
fn ok_on_a_thread(manager: &LockManager) -> Result<u8, LockError> {
    std::thread::sleep(SHORT * 3);
    Ok(1)
}

#[distributed_lock(key = "k", ttl = "100ms", renew = false, manager = manager, map_err = |error| error.to_string())]
fn err_on_a_thread(manager: &LockManager) -> Result<u8, String> {
    std::thread::sleep(SHORT * 3);
    Err("own error".to_owned())
}

#[distributed_lock(key = "k", ttl = "100ms", renew = false, manager = manager, on_lost = "continue")]
fn continued_on_a_thread(manager: &LockManager) -> Result<u8, LockError> {
    std::thread::sleep(SHORT * 3);
    Ok(1)
}

#[distributed_lock(key = "k", ttl = "100ms", renew = false, manager = manager, on_error = |error| error.is_lost())]
fn not_a_result_on_a_thread(manager: &LockManager) -> bool {
    std::thread::sleep(SHORT * 3);
    false
}

/// The lease alone would end before.
#[distributed_lock(key = "k", ttl = "1500ms", max_hold = "1600ms")]
async fn held_too_long() -> Result<(), LockError> {
    std::future::pending().await
}

#[tokio::test]
async fn an_async_body_is_dropped_at_its_next_await() {
    locked(async {
        let log = Log::default();
        let error = cancelled(log.clone()).await.unwrap_err();
        assert!(error.is_lost(), "{error:?}");
        assert_eq!(log.entries(), ["started"]);
    })
    .await;
}

#[tokio::test]
async fn an_async_body_goes_on_with_continue() {
    locked(async {
        let log = Log::default();
        assert_eq!(continued(log.clone()).await.unwrap(), 1);
        assert_eq!(log.entries(), ["finished"]);
    })
    .await;
}

#[tokio::test]
async fn a_body_that_completes_keeps_its_value() {
    locked(async { assert_eq!(finished_late_without_waiting().await.unwrap(), 1) }).await;
}

#[tokio::test]
async fn a_deleted_key_is_a_loss_too() {
    let manager = LockManager::in_memory();
    #[distributed_lock(key = "k", ttl = "10m", manager = manager)]
    async fn deleted(manager: &LockManager) -> Result<(), LockError> {
        manager.force_release("k").await?;
        std::future::pending().await
    }
    assert!(deleted(&manager).await.unwrap_err().is_lost());
}

#[tokio::test]
async fn max_hold_ends_the_lease_although_it_is_renewed() {
    locked(async {
        let error = held_too_long().await.unwrap_err();
        assert!(matches!(error, LockError::Lost { reason: distlock::LostReason::MaxHold, .. }), "{error:?}");
    })
    .await;
}

#[test]
fn on_a_thread_an_ok_becomes_lost() {
    let manager = LockManager::in_memory();
    assert!(ok_on_a_thread(&manager).unwrap_err().is_lost());
    assert_eq!(err_on_a_thread(&manager).unwrap_err(), "own error");
    assert_eq!(continued_on_a_thread(&manager).unwrap(), 1);
    assert!(not_a_result_on_a_thread(&manager));
}
