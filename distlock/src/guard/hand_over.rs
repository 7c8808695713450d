//! Handing a lock over to another process.

use super::{Guard, forked};
use crate::backend::LockKind;
use crate::driver;
use crate::error::LockError;
use crate::key::LockKey;
use crate::protocol::token_text;
use crate::release::failure;
use crate::ticket::Ticket;

impl Guard {
    /// Hands the lock over: it stays held, without this process. Any process that uses the same store
    /// [takes it over](crate::LockManager::take_over) with the ticket. The lock is never free
    /// in between, the new holder gets the next fencing token, and waiters keep their places behind it.
    ///
    /// The lease is renewed once more for its whole ttl. If no process takes the lock over by then, the lease expires,
    /// and the next waiter gets the lock, as after a crash. So make the [ttl](crate::LockRequest::ttl) as long as the
    /// ticket may travel, or [`extend`](Guard::extend) the lease before. This process may end at once. (On ZooKeeper,
    /// no lease outlives its session. So there, the lease expires at most `session_timeout` after the manager has
    /// ended, even if its ttl is longer.)
    ///
    /// From now on, the lock counts as lost for every handle that still exists:
    /// [`lost`](Guard::lost) becomes ready with [`LostReason::Released`](crate::LostReason::Released). Waiters of this
    /// process wait at the store. `max_hold` and `min_hold` end with this guard. The next holder sets its own.
    ///
    /// # Errors
    /// The guard is gone after an error, too, as if it had been dropped: a lock that is still held is released in the
    /// background.
    ///
    /// - [`LockError::InvalidOptions`]: only an exclusive lock of one key can be handed over, by the section that has
    ///   acquired it, and not on every store
    /// - [`LockError::Lost`]: it is no longer held
    /// - [`LockError::Unavailable`]: the last renewal was not confirmed
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, the lock is released in the background.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("order:42").acquire().await?;
    /// let ticket = guard.hand_over().await?.to_string(); // goes into the job
    ///
    /// // The worker:
    /// let guard = manager.take_over(&ticket.parse()?).acquire().await?;
    /// guard.release().await
    /// # }
    /// ```
    #[doc(alias("transfer", "restoreLock", "detach", "leak"))]
    pub fn hand_over(self) -> impl Future<Output = Result<Ticket, LockError>> + Send + Sync + 'static {
        Box::pin(self.handed_over())
    }

    async fn handed_over(self) -> Result<Ticket, LockError> {
        if self.is_forked() {
            return Err(forked(self.cell()));
        }
        let (lease_handle, cell) = (&self.first.lease_handle, self.cell());
        let core = lease_handle.alive.core();
        let reason = if cell.kind != LockKind::Exclusive || !self.rest.0.is_empty() {
            Some("only an exclusive lock of one key is handed over".to_owned())
        } else if self.first.nested.is_some() {
            Some("an outer section of this task holds the lock: only that can hand it over".to_owned())
        } else {
            core.backend.cannot_replace()
        };
        if let Some(reason) = reason {
            return Err(LockError::options(format!("lock `{}`: {reason}", cell.key)));
        }
        let handed_over = driver::hand_over(lease_handle).await;
        let ttl = handed_over.map_err(|failed| failure(cell, failed, NOT_HANDED_OVER))?;
        Ok(Ticket {
            prefix: core.backend.prefix().into(),
            key: LockKey::from_shared(cell.key.clone()),
            owner: token_text(&core.client, cell.token).into(),
            ttl,
            fence: cell.fence,
        })
    }
}

const NOT_HANDED_OVER: &str = "it was not handed over, because its last renewal was not confirmed; it is released in \
                               the background";
