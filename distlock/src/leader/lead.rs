//! The argument of a leader's body.

use std::ops::Deref;
use std::sync::Arc;

use crate::driver::Core;
use crate::guard::Guard;
use crate::held::Held;
use distlock_store::FencingToken;

/// A term of a leader: the argument that [`Candidate::run`](super::Candidate::run) passes to the body. It dereferences
/// to [`Guard`]. It is `'static` and cheap to clone, for tasks that the body spawns.
///
/// It does not keep the term. The term ends when the body returns, is dropped or panics, or when the lease is lost.
/// Tasks that the body has spawned continue after that, so they should await [`lost`](Guard::lost), or check
/// [`is_leader`](Lead::is_leader).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// manager.leader("mailer").run(async |lead| {
///     let helper = lead.clone();
///     tokio::spawn(async move { helper.is_leader() }).await.expect("it does not panic")
/// }).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Lead {
    held: Held,
    term: FencingToken,
    core: Arc<Core>,
}

impl Lead {
    pub(super) fn new(held: Held, term: FencingToken, core: Arc<Core>) -> Self {
        Lead { held, term, core }
    }

    /// The number of the term. It is greater than the numbers of all earlier terms. Store it with your data, and refuse
    /// writes with a smaller number: see [`FencingToken`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let first = manager.leader("mailer").run(async |lead| lead.term()).await?;
    /// let second = manager.leader("mailer").run(async |lead| lead.term()).await?;
    /// assert!(second > first);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn term(&self) -> FencingToken {
        self.term
    }

    /// Whether this is certainly the leader at this moment. No I/O. After it has returned false, it never returns true
    /// again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// manager.leader("mailer").run(async |lead| {
    ///     while lead.is_leader() {
    ///         // one step of the work
    ///         # break;
    ///     }
    /// }).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.held.is_held()
    }

    /// Whether the manager is shutting down. For bodies that cannot await [`closing`](Lead::closing), for example on
    /// threads.
    ///
    /// ```
    /// let manager = distlock::blocking::LockManager::in_memory();
    /// manager.leader("mailer").run(|lead| {
    ///     while lead.is_leader() && !lead.is_closing() {
    ///         // one step of the work
    ///         # break;
    ///     }
    /// })?;
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    #[must_use]
    pub fn is_closing(&self) -> bool {
        // In a fork, the mutex may be locked by a thread that does not exist here.
        !self.core.is_forked() && *self.core.closing().borrow()
    }

    /// Becomes ready when the manager begins to shut down. The body should then finish and return. The term ends with
    /// the grace period at the latest.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// use std::time::Duration;
    ///
    /// manager.leader("mailer").run(async |lead| {
    ///     let stopping = manager.clone();
    ///     tokio::spawn(async move { stopping.shutdown(Duration::from_secs(5)).await });
    ///     lead.closing().await; // finish what was begun, then return
    /// }).await?;
    /// # Ok(()) }
    /// ```
    pub fn closing(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut closed = self.core.closing();
        async move {
            // Fails only when the manager has ended.
            drop(closed.wait_for(|closed| *closed).await);
        }
    }
}

impl Deref for Lead {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.held
    }
}
