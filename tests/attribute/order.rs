//! `when`, manager, key, acquisition and body are evaluated in this order, at the first poll, each once.

use distlock::{LockError, LockKey, LockManager, distributed_lock};

use crate::support::Log;

struct Parts {
    log: Log,
    manager: LockManager,
    locking: bool,
}

impl Parts {
    fn when(&self) -> bool {
        self.log.add("when");
        self.locking
    }

    fn manager(&self) -> LockManager {
        self.log.add("manager");
        self.manager.clone()
    }

    fn key(&self) -> Result<LockKey, LockError> {
        self.log.add("key");
        LockKey::new("k")
    }

    #[distributed_lock(key = self.key(), manager = self.manager(), when = self.when())]
    async fn locked(&self) -> Result<(), LockError> {
        self.log.add("body");
        Ok(())
    }

    #[distributed_lock(key = self.key(), manager = self.manager(), when = self.when())]
    fn locked_on_a_thread(&self) -> Result<(), LockError> {
        self.log.add("body");
        Ok(())
    }

    #[distributed_lock(key = self.key())]
    async fn without_manager(&self) -> Result<(), LockError> {
        Ok(())
    }
}

fn parts(locking: bool) -> Parts {
    Parts { log: Log::default(), manager: LockManager::in_memory(), locking }
}

#[tokio::test]
async fn everything_happens_at_the_first_poll_in_order_and_once() {
    let parts = parts(true);
    let call = parts.locked();
    assert_eq!(parts.log.entries(), [""; 0]);
    call.await.unwrap();
    assert_eq!(parts.log.entries(), ["when", "manager", "key", "body"]);
}

#[tokio::test]
async fn a_body_that_is_not_locked_asks_for_nothing() {
    let parts = parts(false);
    parts.locked().await.unwrap();
    assert_eq!(parts.log.entries(), ["when", "body"]);
}

#[tokio::test]
async fn without_a_manager_the_key_is_not_asked_for() {
    let parts = parts(true);
    assert!(matches!(parts.without_manager().await, Err(LockError::NotInitialized)));
    assert_eq!(parts.log.entries(), [""; 0]);
}

#[test]
fn the_same_on_a_thread() {
    let parts = parts(true);
    parts.locked_on_a_thread().unwrap();
    assert_eq!(parts.log.entries(), ["when", "manager", "key", "body"]);
}

#[distributed_lock(key = "k:<text>", guard = guard, manager = manager)]
async fn moving(manager: LockManager, text: String) -> Result<(String, String), LockError> {
    let moved = text;
    Ok((guard.key().to_owned(), moved))
}

#[tokio::test]
async fn the_key_is_rendered_before_the_body_moves_an_argument() {
    let (key, text) = moving(LockManager::in_memory(), "a".into()).await.unwrap();
    assert_eq!((key.as_str(), text.as_str()), ("k:a", "a"));
}

#[distributed_lock(key = "k:<id>", guard = guard, manager = manager)]
async fn changing(manager: LockManager, mut id: u64) -> Result<(String, u64), LockError> {
    id += 1;
    Ok((guard.key().to_owned(), id))
}

#[tokio::test]
async fn the_key_is_rendered_before_the_body_changes_an_argument() {
    assert_eq!(changing(LockManager::in_memory(), 1).await.unwrap(), ("k:1".to_owned(), 2));
}
