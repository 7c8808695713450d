//! The crate redlock, which blocks, and makes a new connection for every command.

use std::sync::Arc;

use distlock_benches::Result;
use distlock_benches::contenders::TTL;
use redlock::RedLock;
use tokio::task::spawn_blocking;

/// redlock on some servers.
#[derive(Clone, Debug)]
pub(super) struct Redlock(Arc<RedLock>);

impl Redlock {
    pub(super) fn over(urls: &[String]) -> Redlock {
        Redlock(Arc::new(RedLock::new(urls.iter().map(String::as_str).collect())))
    }

    /// Acquires and releases `key`. It ends only after the servers have replied, even if the caller is dropped.
    pub(super) async fn section(&self, key: &str) -> Result<()> {
        let (locks, key) = (Arc::clone(&self.0), key.to_owned());
        let section = move || {
            let guard = locks.acquire(key.as_bytes(), usize::try_from(TTL.as_millis())?)?;
            // Releases it.
            drop(guard);
            Ok(())
        };
        spawn_blocking(section).await?
    }
}
