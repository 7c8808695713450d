//! What several files use.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use distlock::{LockError, LockManager, with_manager};

/// Long enough for everything that must not happen, short enough to wait for.
pub const SHORT: Duration = Duration::from_millis(40);

/// Runs a future with a manager of its own.
pub async fn locked<T>(future: impl Future<Output = T>) -> T {
    with_manager(LockManager::in_memory(), future).await
}

/// Whether somebody holds a key.
pub async fn is_busy(manager: &LockManager, key: &str) -> bool {
    manager.lock(key).no_wait().try_acquire().await.unwrap().is_none()
}

/// Whether somebody holds a key, by the manager in scope.
pub async fn is_busy_here(key: &str) -> bool {
    is_busy(&LockManager::current().unwrap(), key).await
}

/// Fails if the lock is not held at that moment.
pub async fn assert_held(key: &str) {
    assert!(is_busy_here(key).await, "`{key}` should be held");
}

/// Fails if the lock is held at that moment.
pub async fn assert_free(key: &str) {
    assert!(!is_busy_here(key).await, "`{key}` should be free");
}

/// A list of what happened.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub fn add(&self, entry: impl Into<String>) {
        self.0.lock().unwrap().push(entry.into());
    }

    pub fn entries(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// An error of an application.
#[derive(Debug)]
pub enum AppError {
    Lock(LockError),
    Refused,
}

impl From<LockError> for AppError {
    fn from(error: LockError) -> Self {
        AppError::Lock(error)
    }
}

impl AppError {
    pub fn is_busy(&self) -> bool {
        matches!(self, AppError::Lock(error) if error.is_busy())
    }
}
