//! Forced releases and the shutdown.

use std::sync::Arc;
use std::time::Duration;

use super::LockManager;
use crate::backend::{BoxFuture, Failure, StoreError};
use crate::driver::Core;
use crate::error::LockError;
use crate::key::{IntoLockKey, LockKey};
use distlock_store::clock;

/// How long the replies to pending commands are awaited after the grace period.
const UNDER_WAY_WAIT: Duration = Duration::from_secs(1);

/// The result of a [`shutdown`](LockManager::shutdown).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// use std::time::Duration;
///
/// let report = manager.shutdown(Duration::from_secs(5)).await;
/// assert_eq!(report.lost, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// The number of locks that were held when the shutdown began. A leader holds the lock of its office and, if the
    /// store keeps shared locks, the lock of its term.
    pub held: usize,
    /// How many of these locks were not released within the grace period, and were lost.
    pub lost: usize,
    /// How many of the lost locks are still in use by bodies that ignore the loss. Their leases expire after their ttl.
    pub ignored: usize,
    /// The number of releases that the server has not confirmed, because they failed or have no reply yet. Their leases
    /// expire after their ttl. A release that was sent again after a reconnect may be counted twice.
    pub unconfirmed: usize,
}

/// How often a forced release is tried if the store does not find the holder and then names it again.
const TRIES: usize = 3;

const NOT_FORCED: &str = "the forced release was not confirmed; the lock may have been released";

/// The result of [`force_release_from`](LockManager::force_release_from).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// use distlock::ForcedRelease;
///
/// match manager.force_release_from("order:42", "dl1:checkout.7f:3").await? {
///     ForcedRelease::Released { from } => println!("it was taken from {from}"),
///     ForcedRelease::HeldByAnother { holder } => println!("{holder} holds it by now: nothing was changed"),
///     ForcedRelease::NotHeld => println!("it is free"),
///     _ => {}
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForcedRelease {
    /// The lock was released. The given owner held it.
    Released {
        /// The owner token of the former holder.
        from: String,
    },
    /// Another holder has the lock, and keeps it.
    HeldByAnother {
        /// The owner token of that holder. If there are several, the token of the longest lease.
        holder: String,
    },
    /// The lock is free.
    NotHeld,
}

/// When dropped, checks with the server whether this process still holds the key. The check comes after the forced
/// release, whether or not that command was awaited.
struct AskWhetherHeld<'a> {
    core: &'a Arc<Core>,
    key: &'a LockKey,
}

impl Drop for AskWhetherHeld<'_> {
    fn drop(&mut self) {
        self.core.ask_whether_held(self.key.shared());
    }
}

fn unavailable(key: &LockKey, error: StoreError) -> LockError {
    LockError::Unavailable { key: key.clone(), source: error.source }
}

impl LockManager {
    /// Releases the lock by force, and grants it to the next waiter in the queue. For operators: the holder may be in
    /// the middle of its work. A holder of this manager notices the loss within a round trip, other holders at their
    /// next renewal. Returns whether the lock was held.
    ///
    /// The holder may have changed since it was inspected. To release the lock only if a certain holder has it, use
    /// [`force_release_from`](Self::force_release_from).
    ///
    /// # Errors
    /// [`LockError::Unavailable`] if the server is unreachable; the lock may have been released nevertheless.
    /// [`LockError::InvalidKey`].
    ///
    /// # Cancel safety
    /// After the first poll, the lock may be released even if the future is dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("order:42").acquire().await?;
    /// assert!(manager.force_release("order:42").await?);
    /// assert!(guard.lost().await.is_lost());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("forceUnlock", "unlock", "break lock", "DEL"))]
    pub fn force_release(
        &self,
        key: impl IntoLockKey,
    ) -> impl Future<Output = Result<bool, LockError>> + Send {
        Box::pin(self.force_release_key(key.into_lock_key()))
    }

    async fn force_release_key(&self, key: Result<LockKey, LockError>) -> Result<bool, LockError> {
        let key = key?;
        let _ask = AskWhetherHeld { core: self.core(), key: &key };
        self.ending(&key, |core, key| core.backend.force_release(key.shared())).await
    }

    /// Releases the lock by force if `owner` holds it. If there are several holders, only the lease of `owner` ends.
    /// The store checks the owner and releases the lock in one operation. So if the lock was handed on in the meantime,
    /// the new holder keeps it. `owner` is a token that [`inspect`](Self::inspect) or [`list`](Self::list) shows. It
    /// may be a token of another program.
    ///
    /// A token names a lease, and sections of one process that follow each other may share a lease: tasks that wait
    /// for the key, and sections of a lock that [lingers](crate::LockRequest::linger). If such a section has begun
    /// since the owner was inspected, that section loses the lock.
    ///
    /// # Errors
    /// [`LockError::Unavailable`] if the server is unreachable; the lock may have been released nevertheless.
    /// [`LockError::InvalidKey`].
    ///
    /// # Cancel safety
    /// After the first poll, the lock may be released even if the future is dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// use distlock::ForcedRelease;
    ///
    /// let guard = manager.lock("order:42").acquire().await?;
    /// let seen = manager.inspect("order:42").await?.expect("it is held");
    /// guard.release().await?;
    /// let next = manager.lock("order:42").acquire().await?;
    /// let done = manager.force_release_from("order:42", &seen.holder).await?;
    /// assert_eq!(done, ForcedRelease::HeldByAnother { holder: next.owner() });
    /// assert!(next.is_held());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("forceUnlock", "compare and delete"))]
    pub fn force_release_from(
        &self,
        key: impl IntoLockKey,
        owner: impl AsRef<str>,
    ) -> impl Future<Output = Result<ForcedRelease, LockError>> + Send {
        Box::pin(self.force_release_key_from(key.into_lock_key(), owner.as_ref().into()))
    }

    async fn force_release_key_from(
        &self,
        key: Result<LockKey, LockError>,
        owner: Arc<str>,
    ) -> Result<ForcedRelease, LockError> {
        let key = key?;
        let _ask = AskWhetherHeld { core: self.core(), key: &key };
        for _ in 0..TRIES {
            let release = |core: &Core, key: &LockKey| core.backend.force_release_from(key.shared(), &owner);
            if self.ending(&key, release).await? {
                return Ok(ForcedRelease::Released { from: owner.to_string() });
            }
            match self.look_up(&key).await? {
                None => return Ok(ForcedRelease::NotHeld),
                Some(found) if !found.is_held_by(&owner) => {
                    return Ok(ForcedRelease::HeldByAnother { holder: found.first_holder().to_owned() });
                }
                // The same owner has acquired the lock again meanwhile.
                Some(_) => {}
            }
        }
        let text = format!("the store names {owner} as the holder, but does not find its lease");
        Err(LockError::unavailable(key.as_str(), text))
    }

    /// Executes `operation`. If there was no link, retries for as long as a request may take.
    pub(super) async fn reaching<T>(
        &self,
        key: &LockKey,
        operation: impl Fn(&Core, &LockKey) -> BoxFuture<Result<T, StoreError>>,
    ) -> Result<T, LockError> {
        self.trying(key, operation).await?.map_err(|error| unavailable(key, error))
    }

    /// The same for a forced release. Without a reply, it may have been applied.
    async fn ending<T>(
        &self,
        key: &LockKey,
        operation: impl Fn(&Core, &LockKey) -> BoxFuture<Result<T, StoreError>>,
    ) -> Result<T, LockError> {
        self.trying(key, operation).await?.map_err(|error| match error.kind {
            Failure::NotSent => unavailable(key, error),
            _ => LockError::unconfirmed(key.clone(), NOT_FORCED, error.source),
        })
    }

    async fn trying<T>(
        &self,
        key: &LockKey,
        operation: impl Fn(&Core, &LockKey) -> BoxFuture<Result<T, StoreError>>,
    ) -> Result<Result<T, StoreError>, LockError> {
        let core = self.core();
        core.backend.check_key(key)?;
        if let Some(error) = core.refusal() {
            return Err(unavailable(key, error));
        }
        let unavailable_after = self.0.defaults().unavailable_after;
        Ok(core.reaching(unavailable_after, || operation(core, key)).await)
    }

    /// Shuts the manager down. New and waiting requests fail with [`LockError::Closed`] at once. Holders may continue
    /// for at most `grace`. Then their locks are lost ([`LostReason::Shutdown`](crate::LostReason::Shutdown)), and
    /// async bodies are stopped. A key is released as soon as its body has ended. If a body ignores the loss, its lease
    /// ends when it expires. The shutdown takes at most `grace` plus one second.
    ///
    /// Does nothing in a process that was forked after the manager was created.
    ///
    /// # Cancel safety
    /// If the future is dropped, the manager stays closed, and its holders continue.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// use std::time::Duration;
    ///
    /// let report = manager.shutdown(Duration::from_secs(5)).await;
    /// println!("{} locks were held, {} of them were lost", report.held, report.lost);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("close", "graceful shutdown", "stop"))]
    pub fn shutdown(&self, grace: Duration) -> impl Future<Output = ShutdownReport> + Send {
        Box::pin(self.shut_down(grace))
    }

    async fn shut_down(&self, grace: Duration) -> ShutdownReport {
        let core = self.core();
        if core.is_forked() {
            // All locks belong to the parent process.
            return ShutdownReport { held: 0, lost: 0, ignored: 0, unconfirmed: 0 };
        }
        let held = core.lease_handles();
        core.close();
        core.idle_within(grace, |core| core.lease_handles() == 0 && core.is_idle()).await;
        let lost = core.lease_handles_not_released();
        core.lose_all();
        let until = clock::now().after(UNDER_WAY_WAIT);
        core.idle_within(UNDER_WAY_WAIT, |core| core.lease_handles() == 0 && core.is_idle()).await;
        let (ignored, unconfirmed) = (core.lease_handles_not_released(), core.unconfirmed());
        // A body that ignores the loss keeps its lease. For a release without a reply, the store may end the lease.
        if ignored == 0 {
            core.close_backend(until.duration_since(clock::now())).await;
        }
        ShutdownReport { held, lost, ignored, unconfirmed }
    }
}
