//! Helpers of several files.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use distlock::{LockError, LockManager, with_manager};

/// Long enough to notice an event that must not happen, and short enough to wait for.
pub(crate) const SHORT: Duration = Duration::from_millis(40);

/// Longer than anything takes that a test waits for.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// Runs a future with a new manager.
pub(crate) async fn locked<T>(future: impl Future<Output = T>) -> T {
    with_manager(LockManager::in_memory(), future).await
}

/// Whether any task, including this one, holds a key.
pub(crate) async fn is_busy(manager: &LockManager, key: &str) -> bool {
    match manager.lock(key).no_wait().try_acquire().await {
        Ok(guard) => guard.is_none(),
        Err(LockError::WouldDeadlock { .. }) => true,
        Err(error) => panic!("{error}"),
    }
}

/// Whether any task holds a key of the manager in scope.
pub(crate) async fn is_busy_here(key: &str) -> bool {
    is_busy(&LockManager::current().unwrap(), key).await
}

/// Fails if the lock is not held at that moment.
pub(crate) async fn assert_held(key: &str) {
    assert!(is_busy_here(key).await, "`{key}` should be held");
}

/// Fails if the lock is held at that moment.
pub(crate) async fn assert_free(key: &str) {
    assert!(!is_busy_here(key).await, "`{key}` should be free");
}

/// Waits until a key is free again.
pub(crate) async fn until_free(manager: &LockManager, key: &str) {
    let guard = manager.lock(key).wait(LONG).acquire().await.unwrap();
    guard.release().await.unwrap();
}

/// A list of events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn add(&self, entry: impl Into<String>) {
        self.0.lock().unwrap().push(entry.into());
    }

    pub(crate) fn entries(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// An error of an application.
#[derive(Debug)]
pub(crate) enum AppError {
    Lock(LockError),
    Refused,
}

impl From<LockError> for AppError {
    fn from(error: LockError) -> Self {
        AppError::Lock(error)
    }
}

impl AppError {
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, AppError::Lock(error) if error.is_busy())
    }
}
