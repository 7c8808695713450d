//! Inspects one lock.

use super::LockManager;
use super::lock_info::{LockInfo, OwnAccount, client};
use crate::error::LockError;
use crate::key::{IntoLockKey, LockKey};
use crate::protocol::StoredLock;

impl LockManager {
    /// Returns the holders of `key` and its waiters. `None`: the lock is free.
    ///
    /// Only the store is asked, so a stopped process is shown like any other. On Redis, this takes two round trips: one
    /// for the lock, and one for the records that its holders and waiters have written. A client writes the record of
    /// its process after it has been connected for a quarter of a second. It writes the label and age of a lease when
    /// it renews the lease. [`LockInfo::unanswered`] names the clients that have sent no heartbeat for 15 s.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("order:42").label("checkout").acquire().await?;
    /// let lock = manager.inspect("order:42").await?.expect("it is held");
    /// assert_eq!(lock.holders[0].label.as_deref(), Some("checkout"));
    /// let holder = lock.holders[0].client.as_ref().expect("one of ours");
    /// assert_eq!(holder.pid, Some(std::process::id()));
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`LockError::Unavailable`] if the server is unreachable, [`LockError::InvalidKey`].
    ///
    /// # Cancel safety
    /// Cancel-safe.
    #[doc(alias("isLocked", "holder", "owner", "who", "PTTL", "remainTimeToLive"))]
    pub fn inspect(
        &self,
        key: impl IntoLockKey,
    ) -> impl Future<Output = Result<Option<LockInfo>, LockError>> + Send {
        Box::pin(self.inspect_key(key.into_lock_key()))
    }

    async fn inspect_key(&self, key: Result<LockKey, LockError>) -> Result<Option<LockInfo>, LockError> {
        let key = key?;
        let Some(found) = self.look_up(&key).await? else { return Ok(None) };
        let core = self.core();
        let account = core.account(key.shared());
        let told = account.map(|account| OwnAccount { client: client(&core.client, &core.who()), account });
        let info = LockInfo::of(key.as_str(), core.backend.prefix(), &found, told.as_ref());
        let waiters_here = core.engine.look(key.shared(), |machine| machine.waiting(key.shared()));
        Ok(Some(LockInfo { waiters_here, ..info }))
    }

    /// The store's data about a key.
    pub(crate) async fn look_up(&self, key: &LockKey) -> Result<Option<StoredLock>, LockError> {
        self.reaching(key, |core, key| core.backend.inspect(key.shared())).await
    }
}
