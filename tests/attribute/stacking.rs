//! Several attributes on one function.

use distlock::{LockError, distributed_lock};

use crate::support::{Log, assert_held, locked};

fn noted(log: &Log, key: &str) -> String {
    log.add(key);
    key.to_owned()
}

#[distributed_lock(key = noted(&log, "upper"))]
#[distributed_lock(key = noted(&log, "lower"))]
async fn twice(log: Log) -> Result<(), LockError> {
    assert_held("upper").await;
    assert_held("lower").await;
    Ok(())
}

#[distributed_lock(key = "a:<id>", guard = first)]
#[distributed_lock(key = "b:<id>", guard = second)]
async fn with_patterns((id, _): (u64, String), _: u8) -> Result<String, LockError> {
    Ok(format!("{} {}", first.key(), second.key()))
}

#[distributed_lock(key = "k")]
#[distributed_lock(key = "k")]
async fn the_same_key_twice() -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "a", manager = manager)]
#[distributed_lock(key = "b", manager = manager)]
fn on_a_thread(manager: &distlock::LockManager) -> Result<bool, LockError> {
    Ok(distlock::is_held_here("a") && distlock::is_held_here("b"))
}

#[tokio::test]
async fn the_lowest_is_acquired_first() {
    locked(async {
        let log = Log::default();
        twice(log.clone()).await.unwrap();
        assert_eq!(log.entries(), ["lower", "upper"]);
        assert_eq!(with_patterns((1, "x".into()), 2).await.unwrap(), "a:1 b:1");
        assert!(matches!(the_same_key_twice().await, Err(LockError::WouldDeadlock { .. })));
    })
    .await;
    assert!(on_a_thread(&distlock::LockManager::in_memory()).unwrap());
}
