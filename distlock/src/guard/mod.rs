//! Guards of acquired locks.

mod ended;
mod hand_over;
mod held_lock;
mod in_section;

use std::fmt;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::backend::{Demand, LockKind};
use crate::driver::{self, LeaseHandle};
use crate::error::LockError;
use crate::key::LockKey;
use crate::lease_cell::{CellState, LeaseCell};
use crate::process;
use crate::protocol::token_text;
use crate::release::{Releases, failure};
use crate::ttl::valid_ttl;
use distlock_fence::Fence;
use distlock_store::FencingToken;
use distlock_store::clock;
pub(crate) use ended::GuardEnd;
use held_lock::{HeldLock, check, is_held};

/// An acquired lock. It is held until it is released, dropped, or lost. A guard of several locks
/// ([`lock_all`](crate::LockManager::lock_all)) is held while all of them are held.
///
/// Dropping a guard is safe anywhere (without a runtime, on another thread, during a panic): the release is
/// sent in the background. [`release`](Guard::release) waits for the reply and reports the result. A program
/// that is about to end should wait: see [`LockManager`](crate::LockManager#at-the-end-of-the-process).
///
/// A guard stops nothing when its lease is lost. Check the guard, or await [`lost`](Guard::lost), or use
/// [`run`](crate::LockRequest::run) or the attribute, which stop the body.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// let guard = manager.lock("order:42").acquire().await?;
/// guard.check()?; // between long steps, without I/O
/// guard.release().await?; // or drop it: then it is released in the background
/// # Ok(())
/// # }
/// ```
#[doc(alias("MutexGuard", "lease", "handle", "RLock"))]
#[must_use = "a guard that is dropped at once protects nothing"]
pub struct Guard {
    rest: Rest,
    /// The lock that was acquired first. It is declared last, because fields are dropped in the order of declaration.
    first: HeldLock,
}

/// The locks after the first, in the order of acquisition. Released in reverse order.
#[derive(Debug, Default)]
struct Rest(Vec<HeldLock>);

impl Drop for Rest {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

impl Guard {
    pub(crate) fn new(lease_handle: LeaseHandle) -> Self {
        Guard {
            rest: Rest::default(),
            first: HeldLock { lease_handle: Arc::new(lease_handle), nested: None },
        }
    }

    fn locks(&self) -> impl DoubleEndedIterator<Item = &HeldLock> {
        std::iter::once(&self.first).chain(&self.rest.0)
    }

    fn cells(&self) -> impl Iterator<Item = &LeaseCell> {
        self.locks().map(|lock| &*lock.lease_handle.cell)
    }

    /// Whether `fork` has copied the guard into a child process, which does not hold the lock.
    fn is_forked(&self) -> bool {
        self.first.lease_handle.is_forked()
    }

    /// The first of the locks.
    pub(crate) fn cell(&self) -> &LeaseCell {
        &self.first.lease_handle.cell
    }

    /// The key, without the manager's prefix. If there are several keys, the first one in order.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("order:42").acquire().await?;
    /// assert_eq!(guard.key(), "order:42");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn key(&self) -> &str {
        &self.cell().key
    }

    /// All keys, without the manager's prefix, in order.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let both = manager.lock_all(["b", "a"]).acquire().await?;
    /// assert_eq!(both.keys().collect::<Vec<_>>(), ["a", "b"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.cells().map(|cell| &*cell.key)
    }

    /// The owner token, as [`inspect`](crate::LockManager::inspect) shows it: `dl1:<client>:<number>`. Each lease has
    /// its own token. If there are several keys, the token of the first key in order.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("order:42").acquire().await?;
    /// let seen = manager.inspect("order:42").await?.expect("it is held");
    /// assert_eq!(seen.holder, guard.owner());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn owner(&self) -> String {
        token_text(&self.first.lease_handle.alive.core().client, self.cell().token)
    }

    /// The fencing token, if the request was [`fenced`](crate::LockRequest::fenced).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("account:7").fenced().acquire().await?;
    /// let fence = guard.fencing_token().expect("it was asked for");
    /// // UPDATE account SET points = $1, fence = $2 WHERE id = $3 AND fence <= $2
    /// assert!(fence.as_i64() > 0);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("fence"))]
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.cell().fence.map(FencingToken::new)
    }

    /// The data that the database checks: the key as the store knows it, with the manager's prefix, and the fencing
    /// token.
    ///
    /// # Errors
    /// [`LockError::InvalidOptions`] if the request was not [`fenced`](crate::LockRequest::fenced).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("points:42").fenced().acquire().await?;
    /// let fence = guard.fence()?;
    /// assert_eq!(fence.key(), "points:42");
    /// // distlock::fence::transaction(&fence, &pool, async |tx| ..).await?
    /// # Ok(())
    /// # }
    /// ```
    pub fn fence(&self) -> Result<Fence, LockError> {
        let Some(token) = self.cell().fence else {
            let key = &self.cell().key;
            return Err(LockError::options(format!(
                "lock `{key}` has no fencing token: make the request `fenced()`"
            )));
        };
        let prefix = self.first.lease_handle.alive.core().backend.prefix();
        Ok(Fence::new(format!("{prefix}{}", self.key()), token))
    }

    /// How long the lock is certainly held if it is not renewed. Zero if it is not held. No I/O.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// use std::time::Duration;
    ///
    /// let guard = manager.lock("order:42").ttl(Duration::from_secs(10)).acquire().await?;
    /// assert!(guard.remaining() <= Duration::from_secs(10));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("ttl", "remainTimeToLive"))]
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.is_forked() {
            return Duration::ZERO;
        }
        let now = clock::now();
        let remaining = |cell: &LeaseCell| match cell.state(now) {
            CellState::Until(deadline) => deadline.duration_since(now),
            CellState::Lost(_) | CellState::Released => Duration::ZERO,
        };
        self.cells().map(remaining).min().unwrap_or_default()
    }

    /// Whether the lock is certainly held at this moment. No I/O: the local deadline is earlier than the expiry on the
    /// server. After it has returned false, it never returns true again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("order:42").acquire().await?;
    /// while guard.is_held() {
    ///     // one step of the work
    ///     # break;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("isHeldByCurrentThread", "is_locked", "owned"))]
    #[must_use]
    pub fn is_held(&self) -> bool {
        let now = clock::now();
        !self.is_forked() && self.cells().all(|cell| is_held(cell, now))
    }

    /// `Ok` if the lock is certainly held at this moment. No I/O.
    ///
    /// # Errors
    /// [`LockError::Lost`] if the lock was lost. A loss is final. After the release, every other handle reports the
    /// lock as lost ([`LostReason::Released`](crate::LostReason::Released)). [`LockError::Unavailable`] in a process
    /// that was forked while the lock was held, because the parent has the lock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("import").acquire().await?;
    /// for _row in 0..1000 {
    ///     guard.check()?; // stops soon after a loss
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("assertLocked", "valid"))]
    pub fn check(&self) -> Result<(), LockError> {
        if self.is_forked() {
            return Err(forked(self.cell()));
        }
        self.check_here()
    }

    /// [`check`](Guard::check) for callers that have already checked whether this process was forked.
    pub(crate) fn check_here(&self) -> Result<(), LockError> {
        let now = clock::now();
        self.cells().try_for_each(|cell| check(cell, now))
    }

    /// Becomes ready when the lock is lost. The error contains the reason. The future borrows nothing, so tasks that
    /// the body spawns can await it.
    ///
    /// A normal release is not a loss, so the future never becomes ready after it. If the section that holds the lock
    /// is dropped (by a timeout, an abort, a client that disconnects) or panics, the future becomes ready with
    /// [`LostReason::Released`](crate::LostReason::Released), because tasks that the section has spawned must not
    /// continue without protection. A section is [`run`](crate::LockRequest::run) or an annotated function.
    ///
    /// A [`reentrant`](crate::LockRequest::reentrant) guard reports the loss of the outer lock, even after its own
    /// release.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("import").acquire().await?;
    /// let lost = guard.lost();
    /// let helper = tokio::spawn(async move {
    ///     tokio::select! {
    ///         error = lost => Err(error),
    ///         () = async { /* the work */ } => Ok(()),
    ///     }
    /// });
    /// helper.await.expect("it does not panic")?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("signal", "aborted", "cancellation", "HandleLostToken"))]
    pub fn lost(&self) -> impl Future<Output = LockError> + Send + Sync + 'static {
        let ended = GuardEnd::of(self);
        async move {
            match ended.wait().await {
                Some(error) => error,
                None => pending().await,
            }
        }
    }

    /// Extends the lease to at least `ttl` from now. A longer lease is not shortened. Later renewals use this ttl or
    /// the request's ttl, whichever is longer. The lease never lasts beyond `max_hold`.
    ///
    /// # Errors
    /// [`LockError::Lost`] if the lock is no longer held, [`LockError::Unavailable`] if the server did not answer (the
    /// lock is still held until its deadline), [`LockError::InvalidOptions`] if `ttl` is below 10 ms or above 365 days.
    ///
    /// # Cancel safety
    /// Cancel-safe: after the first poll, the lease is extended even if the future is dropped.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// use std::time::Duration;
    ///
    /// let guard = manager.lock("import").ttl(Duration::from_secs(5)).acquire().await?;
    /// guard.extend(Duration::from_secs(60)).await?;
    /// assert!(guard.remaining() > Duration::from_secs(50));
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("renew", "refresh", "prolong", "touch", "PEXPIRE"))]
    pub fn extend(&self, ttl: Duration) -> impl Future<Output = Result<(), LockError>> + Send + Sync {
        Box::pin(self.extend_now(ttl))
    }

    async fn extend_now(&self, ttl: Duration) -> Result<(), LockError> {
        let ttl = valid_ttl(ttl)?;
        if self.is_forked() {
            return Err(forked(self.cell()));
        }
        let demand = Demand::plain(LockKind::Exclusive, ttl);
        self.first.lease_handle.alive.core().backend.check(&demand)?;
        let begun: Vec<_> = self
            .locks()
            .map(|HeldLock { lease_handle, .. }| (&lease_handle.cell, driver::extend(lease_handle, ttl)))
            .collect();
        let mut result = Ok(());
        for (cell, extending) in begun {
            let extended = extending.confirmed().await;
            result = result.and(extended.map_err(|failed| failure(cell, failed, NOT_EXTENDED)));
        }
        result
    }

    /// Releases the lock and waits for the server's reply.
    ///
    /// # Errors
    /// [`LockError::Lost`] if the lock was lost before: the protected work may have overlapped with the work of another
    /// holder. [`LockError::Unavailable`] if the server did not answer: the release is retried in the background, and
    /// the lease expires after its ttl.
    ///
    /// # Cancel safety
    /// Cancel-safe: dropping the future releases in the background.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("order:42").acquire().await?;
    /// if let Err(error) = guard.release().await {
    ///     eprintln!("{error}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("unlock", "compare-and-delete"))]
    pub fn release(self) -> impl Future<Output = Result<(), LockError>> + Send + Sync + 'static {
        ReleaseOwned { guard: Some(self), release: None }
    }

    /// Releases the locks in reverse order. Each release is sent without a wait for the previous reply, and all of them
    /// have been sent when this returns.
    pub(crate) fn begin_release(&self) -> Releases {
        Releases::of(self.locks().rev().map(HeldLock::release))
    }
}

/// The future of [`Guard::release`].
struct ReleaseOwned {
    guard: Option<Guard>,
    release: Option<Releases>,
}

impl Future for ReleaseOwned {
    type Output = Result<(), LockError>;

    #[inline(never)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(guard) = self.guard.take() {
            self.release = Some(guard.begin_release());
        }
        match &mut self.release {
            Some(release) => Pin::new(release).poll(cx),
            None => Poll::Pending,
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("keys", &self.keys().collect::<Vec<_>>())
            .field("fencing_token", &self.fencing_token())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}

fn forked(cell: &LeaseCell) -> LockError {
    LockError::Unavailable { key: LockKey::from_shared(cell.key.clone()), source: process::forked().source }
}

const NOT_EXTENDED: &str = "the extension was not confirmed; the lock is held until its deadline";
