//! Inspecting locks, taking them away, and shutting down.

use std::sync::Arc;
use std::time::Duration;

use super::LockManager;
use crate::backend::{BoxFuture, Failure, Inspection, Kind, OpError};
use crate::clock;
use crate::driver::{Core, LinkSeen};
use crate::error::LockError;
use crate::key::{IntoLockKey, LockKey};
use crate::lock_kind::LockKind;

/// After the grace period, commands under way have this long to be answered.
const UNDER_WAY_WAIT: Duration = Duration::from_secs(1);

/// One holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockHolder {
    /// The owner token; see [`LockInfo::holder`].
    pub token: String,
    /// When its lease ends, if it is not renewed. `None`: never.
    pub remaining: Option<Duration>,
}

/// The holders of a lock; see [`LockManager::inspect`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockInfo {
    /// The key, without the manager's prefix.
    pub key: String,
    /// The key on the server.
    pub full_key: String,
    /// The kind of lock.
    pub kind: LockKind,
    /// The holder's owner token; of several holders, the one whose lease lasts longest. Tokens of this
    /// library read `dl1:<client>:<number>`. A token that begins with `dl1:hold` stands for a lock that was
    /// released and whose key `min_hold` keeps.
    pub holder: String,
    /// All holders, the longest lease first, up to a thousand. Empty if the server does not tell them: for a
    /// shared or limited lock of managers with another key prefix, or for an ACL user that may not read them.
    pub holders: Vec<LockHolder>,
    /// When the longest lease ends if it is not renewed. `None`: never (this library sets no such key).
    pub remaining: Option<Duration>,
    /// Processes that wait in the queue on the server. (All waiters of one process count as one.)
    pub waiters: u64,
    /// Requests of this process that wait.
    pub waiters_here: usize,
}

/// How a [`shutdown`](LockManager::shutdown) went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Locks held when it began.
    pub held: usize,
    /// How many of these were not released within the grace period and lost their leases.
    pub lost: usize,
    /// How many of these are still in use, by bodies that ignore the loss. Their leases end with their ttl.
    pub ignored: usize,
    /// Releases that the server has not confirmed. Their leases end with their ttl.
    pub unconfirmed: usize,
}

fn holders(found: &Inspection) -> Vec<LockHolder> {
    let holder = |token: &str, remaining| LockHolder { token: token.to_owned(), remaining };
    match found.kind {
        Kind::Exclusive => vec![holder(&found.holder, found.remaining)],
        Kind::Shared | Kind::Limited(_) => {
            found.holders.iter().map(|(token, left)| holder(token, *left)).collect()
        }
    }
}

/// When dropped, asks whether this process still holds the key. This comes after the command that takes the
/// lock away, whether or not that command was awaited.
struct AskWhetherHeld<'a> {
    core: &'a Arc<Core>,
    key: &'a LockKey,
}

impl Drop for AskWhetherHeld<'_> {
    fn drop(&mut self) {
        self.core.ask_whether_held(self.key.shared());
    }
}

impl LockManager {
    /// Reads the holders of `key`. `None`: it is free.
    ///
    /// # Errors
    /// [`LockError::Unavailable`] if the server cannot be reached, [`LockError::InvalidKey`].
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub fn inspect(
        &self,
        key: impl IntoLockKey,
    ) -> impl Future<Output = Result<Option<LockInfo>, LockError>> + Send {
        Box::pin(self.inspect_key(key.into_lock_key()))
    }

    async fn inspect_key(&self, key: Result<LockKey, LockError>) -> Result<Option<LockInfo>, LockError> {
        let key = key?;
        let found = self.reaching(&key, |core, key| core.backend.inspect(key.shared())).await?;
        Ok(found.map(|found| LockInfo {
            full_key: format!("{}{key}", self.core().backend.prefix()),
            kind: found.kind.into(),
            holder: found.holder.to_string(),
            holders: holders(&found),
            remaining: found.remaining,
            waiters: found.waiters,
            waiters_here: self.core().engine.waiting_here(key.shared()),
            key: key.to_string(),
        }))
    }

    /// Takes the lock away from its holder, and hands it to the next in the queue. For operators: the holder
    /// may be in the middle of its work. A holder of this manager learns of it within a round trip, others at
    /// their next renewal. Returns whether the lock was held.
    ///
    /// # Errors
    /// [`LockError::Unavailable`] if the server cannot be reached, [`LockError::InvalidKey`].
    ///
    /// # Cancel safety
    /// Once polled it may take place although the future is dropped.
    pub fn force_release(
        &self,
        key: impl IntoLockKey,
    ) -> impl Future<Output = Result<bool, LockError>> + Send {
        Box::pin(self.force_release_key(key.into_lock_key()))
    }

    async fn force_release_key(&self, key: Result<LockKey, LockError>) -> Result<bool, LockError> {
        let key = key?;
        let _ask = AskWhetherHeld { core: self.core(), key: &key };
        self.reaching(&key, |core, key| core.backend.force_release(key.shared())).await
    }

    /// Carries out `operation`. If there was no link for it, tries again for as long as a request may take.
    async fn reaching<T>(
        &self,
        key: &LockKey,
        operation: impl Fn(&Core, &LockKey) -> BoxFuture<Result<T, OpError>>,
    ) -> Result<T, LockError> {
        let core = self.core();
        core.backend.check_key(key)?;
        let unavailable = |error: OpError| LockError::Unavailable { key: key.clone(), source: error.source };
        if let Some(error) = core.refusal() {
            return Err(unavailable(error));
        }
        match operation(core, key).await {
            Err(error) if error.kind == Failure::NotSent => {}
            other => return other.map_err(unavailable),
        }
        match core.link_within(self.defaults.unavailable_after).await {
            LinkSeen::Down(error) => Err(unavailable(error)),
            LinkSeen::Up | LinkSeen::NotYet => operation(core, key).await.map_err(unavailable),
        }
    }

    /// Shuts the manager down. New and waiting requests fail with [`LockError::Closed`] at once. Holders may
    /// go on for at most `grace`; then their leases are lost
    /// ([`LostReason::Shutdown`](crate::LostReason::Shutdown)) and cancellable bodies stop. A key is released
    /// as soon as its body has ended. A body that ignores the loss keeps its lease until that expires. Waits
    /// at most `grace` plus one second.
    ///
    /// Does nothing in a process that was forked after the manager was created.
    ///
    /// # Cancel safety
    /// If the future is dropped, the manager stays closed, and its holders go on.
    pub fn shutdown(&self, grace: Duration) -> impl Future<Output = ShutdownReport> + Send {
        Box::pin(self.shut_down(grace))
    }

    async fn shut_down(&self, grace: Duration) -> ShutdownReport {
        let core = self.core();
        if core.is_forked() {
            // All locks belong to the parent.
            return ShutdownReport { held: 0, lost: 0, ignored: 0, unconfirmed: 0 };
        }
        let held = core.lease_handles();
        core.close();
        core.idle_within(grace, |core| core.lease_handles() == 0 && core.is_idle()).await;
        let lost = core.lease_handles();
        core.lose_all();
        let until = clock::now().after(UNDER_WAY_WAIT);
        core.idle_within(UNDER_WAY_WAIT, |core| core.lease_handles() == 0 && core.is_idle()).await;
        let (ignored, unconfirmed) = (core.lease_handles(), core.unconfirmed());
        if ignored == 0 {
            core.close_backend(until.duration_since(clock::now())).await;
        }
        ShutdownReport { held, lost, ignored, unconfirmed }
    }
}
