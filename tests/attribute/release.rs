//! The lock is released before the function returns, however the body ends.

use distlock::{LockError, LockManager, distributed_lock};

use crate::support::{AppError, assert_free, assert_held, locked};

#[distributed_lock(key = "k")]
async fn ends(how: &str) -> Result<u8, AppError> {
    assert_held("k").await;
    match how {
        "return" => return Ok(1),
        "question mark" => Err(AppError::Refused)?,
        "error" => return Err(AppError::Refused),
        "loop" => loop {
            if how.len() == 4 {
                return Ok(2);
            }
        },
        _ => {}
    }
    Ok(0)
}

#[distributed_lock(key = "k", manager = manager)]
fn ends_on_a_thread(manager: &LockManager, text: &str) -> Result<u8, Box<dyn std::error::Error>> {
    if text.is_empty() {
        return Ok(0);
    }
    let number = text.parse()?;
    Ok(number)
}

#[tokio::test]
async fn every_way_out_releases() {
    locked(async {
        for (how, value) in [
            ("value", Some(0)),
            ("return", Some(1)),
            ("loop", Some(2)),
            ("question mark", None),
            ("error", None),
        ] {
            assert_eq!(ends(how).await.ok(), value);
            assert_free("k").await;
        }
    })
    .await;
}

#[test]
fn every_way_out_releases_on_a_thread() {
    let manager = LockManager::in_memory();
    for (text, value) in [("", Some(0)), ("7", Some(7)), ("x", None)] {
        assert_eq!(ends_on_a_thread(&manager, text).ok(), value);
    }
}

#[distributed_lock(key = "k", ttl = "10s", manager = manager)]
async fn taken_away(manager: &LockManager) -> Result<u8, LockError> {
    manager.force_release("k").await?;
    Ok(1)
}

#[tokio::test]
async fn a_refused_release_does_not_replace_the_value() {
    let manager = LockManager::in_memory();
    assert_eq!(taken_away(&manager).await.unwrap(), 1);
}

#[distributed_lock(key = "k", manager = manager)]
async fn counted(
    manager: LockManager,
    counter: std::sync::Arc<std::sync::Mutex<u32>>,
) -> Result<(), LockError> {
    let before = *counter.lock().unwrap();
    tokio::task::yield_now().await;
    *counter.lock().unwrap() = before + 1;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_is_lost() {
    let (manager, counter) = (LockManager::in_memory(), std::sync::Arc::default());
    let calls = (0..100).map(|_| tokio::spawn(counted(manager.clone(), std::sync::Arc::clone(&counter))));
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
    assert_eq!(*counter.lock().unwrap(), 100);
}
