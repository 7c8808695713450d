//! The fixture for SQLite.

use distlock::testing::conformance::Fixture;
use distlock::{LockManager, LockManagerBuilder};
use tempfile::TempDir;

/// A separate file.
pub(crate) struct OnSqlite(TempDir);

impl Fixture for OnSqlite {
    async fn start() -> Self {
        OnSqlite(TempDir::new().unwrap())
    }

    fn builder(&self) -> LockManagerBuilder {
        LockManager::builder().url(format!("sqlite:{}/locks.db", self.0.path().display()))
    }

    async fn residue(&self) -> Vec<String> {
        let mut locks = self.manager().await.list("*");
        let mut left = Vec::new();
        while let Some(lock) = locks.next().await {
            left.push(lock.unwrap().key);
        }
        left
    }
}
