//! Looking at one lock: the store is asked first, then the clients that it names.

use std::sync::Arc;
use std::time::Duration;

use super::LockManager;
use super::asking::{Patience, ask_all};
use super::lock_info::{LockInfo, Told, client, clients_in};
use crate::backend::Others;
use crate::error::LockError;
use crate::key::{IntoLockKey, LockKey};
use crate::protocol::Inspection;
use crate::protocol::inquiry::About;
use distlock_store::clock;

/// How long a client is waited for.
const PATIENCE: Duration = Duration::from_millis(400);
/// And all of them together, of which 64 are asked at a time.
const PATIENCE_WITH_ALL: Duration = Duration::from_secs(5);
/// The most bytes of an answer about one key.
const ROOM: usize = 16 << 10;

impl LockManager {
    /// Reads who holds `key` and who waits for it. `None`: it is free.
    ///
    /// The store is asked first. On Redis, the clients that it names are then asked who they are, since when they hold
    /// the lock or wait for it, and under which label: a second round trip, and up to 400 ms if one of them does not
    /// answer. Clients of the first release do not answer, nor do processes that are stopped, nor those that are asked
    /// more than a hundred times a second; see [`LockInfo::unanswered`].
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
    /// [`LockError::Unavailable`] if the server cannot be reached, [`LockError::InvalidKey`].
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
        let (mut told, mut unanswered) = (Vec::new(), Vec::new());
        if let Some(account) = core.account(key.shared()) {
            told.push(Told { client: Arc::new(client(&core.client, &core.who())), account });
        }
        if core.backend.others() == Others::Asked {
            let about = |_: &str| About::Key(key.shared().clone());
            let patience = Patience { each: PATIENCE, until: clock::now().after(PATIENCE_WITH_ALL) };
            let asked = ask_all(core, clients_in(&found, &core.client), about, (ROOM, patience)).await;
            for (id, page) in asked {
                match page {
                    Some(page) => {
                        let client = Arc::new(client(&id, &page.who));
                        let tell = |account| Told { client: client.clone(), account };
                        told.extend(page.accounts.into_iter().map(tell));
                    }
                    None => unanswered.push(id),
                }
            }
        }
        let info = LockInfo::of(key.as_str(), core.backend.prefix(), &found, &told, unanswered);
        Ok(Some(LockInfo { waiters_here: core.engine.waiting_here(key.shared()), ..info }))
    }

    /// What the store knows of a key.
    pub(crate) async fn look_up(&self, key: &LockKey) -> Result<Option<Inspection>, LockError> {
        self.reaching(key, |core, key| core.backend.inspect(key.shared())).await
    }
}
