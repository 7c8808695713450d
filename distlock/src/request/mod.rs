//! A request for a lock: its options, and the ways to acquire.

mod acquire;
mod checks;
mod options;
#[cfg(feature = "testing")]
mod planned;
mod report;
mod several;
mod single_attempt;
#[cfg(test)]
mod take_over_tests;

use std::borrow::Cow;
use std::pin::{Pin, pin};
use std::slice;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::backend::LockKind;
use crate::engine::Renewal;
use crate::error::LockError;
use crate::guard::Guard;
use crate::held::Held;
use crate::key::LockKey;
use crate::manager_handle::ManagerHandle;
use crate::release::Release;
use crate::retry::Retry;
use crate::section::{Hold, Holding, OnLost};
use crate::ticket::Ticket;
pub(crate) use acquire::AcquireFuture;
pub(crate) use checks::{NO_WAITERS, valid_linger};

/// How long to wait for a lock that another holder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// The manager's default; for `try_acquire`, not at all.
    Default,
    For(Duration),
    Forever,
    Retry(Retry),
}

/// How long a lease may stay with its process after its last section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lingering {
    /// The manager's setting, if the request allows it.
    Default,
    For(Duration),
    Never,
}

/// The keys to lock: sorted, without duplicates, at least one.
#[derive(Debug)]
pub(crate) enum Keys {
    One(LockKey),
    Several(Vec<LockKey>),
}

impl Keys {
    fn as_slice(&self) -> &[LockKey] {
        match self {
            Keys::One(key) => slice::from_ref(key),
            Keys::Several(keys) => keys,
        }
    }
}

/// A request for one lock or several locks. Nothing is sent before [`acquire`](LockRequest::acquire),
/// [`try_acquire`](LockRequest::try_acquire) or [`run`](LockRequest::run).
///
/// See [`LockManager::lock`](crate::LockManager::lock) and [`LockManager::lock_all`](crate::LockManager::lock_all).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// use std::time::Duration;
///
/// let request = manager.lock("order:42").ttl(Duration::from_secs(10)).wait(Duration::from_secs(3));
/// let guard = request.acquire().await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias("mutex", "options"))]
#[must_use = "a request does nothing until it is acquired, tried or run"]
#[derive(Debug)]
pub struct LockRequest {
    manager: ManagerHandle,
    keys: Result<Keys, LockError>,
    ttl: Option<Duration>,
    wait: Wait,
    renewal: Renewal,
    kind: LockKind,
    fenced: bool,
    reentrant: bool,
    max_waiters: Option<u32>,
    max_hold: Option<Duration>,
    min_hold: Option<Duration>,
    release: Option<Release>,
    linger: Lingering,
    /// The holder from which the lock is taken over.
    replaces: Option<Arc<str>>,
    /// Whether the owner token must differ from those of all earlier holders in this process.
    own_lease: bool,
    warn_wait: Option<Duration>,
    warn_hold: Option<Duration>,
    label: Cow<'static, str>,
}

impl LockRequest {
    pub(crate) fn new(manager: ManagerHandle, keys: Result<Keys, LockError>) -> Self {
        LockRequest {
            manager,
            keys,
            ttl: None,
            wait: Wait::Default,
            renewal: Renewal::Keep,
            kind: LockKind::Exclusive,
            fenced: false,
            reentrant: false,
            max_waiters: None,
            max_hold: None,
            min_hold: None,
            release: None,
            linger: Lingering::Default,
            replaces: None,
            own_lease: false,
            warn_wait: None,
            warn_hold: None,
            label: Cow::Borrowed("lock"),
        }
    }

    /// Takes a lock over from the one who has handed it over with this ticket.
    pub(crate) fn take_over(manager: ManagerHandle, ticket: &Ticket) -> Self {
        let ours = manager.core().backend.prefix();
        let keys = if *ours == *ticket.prefix {
            Ok(Keys::One(ticket.key.clone()))
        } else {
            Err(LockError::ticket(format!(
                "it is for the lock `{}{}`, and this manager's prefix is `{ours}`: use a manager with the \
                 prefix of the process that handed it over",
                ticket.prefix, ticket.key
            )))
        };
        LockRequest {
            ttl: Some(ticket.ttl),
            fenced: ticket.fence.is_some(),
            replaces: Some(ticket.owner.clone()),
            ..LockRequest::new(manager, keys)
        }
    }

    /// An exclusive lock with an owner token that no other holder had.
    pub(crate) fn own_lease(self) -> Self {
        LockRequest { own_lease: true, ..self }
    }

    pub(crate) fn release_policy(&self) -> Release {
        self.release.unwrap_or(self.manager.defaults().release)
    }

    /// Acquires the lock.
    ///
    /// # Errors
    /// [`LockError::Busy`] when the wait is over. [`LockError::Unavailable`]:
    ///
    /// - if the server is unreachable for the `wait` or for
    ///   [`unavailable_after`](crate::LockManagerBuilder::unavailable_after) (3 s), whichever is shorter (a
    ///   single attempt: 1 s at most, for all of its keys together);
    /// - at once, if the server refuses permanently, if this process was forked after the manager was created, or if
    ///   the manager's I/O thread has ended;
    /// - if the lease was lost before the guard existed, and the wait is over (nothing was run).
    ///
    /// [`LockError::WrongKind`], [`LockError::WouldDeadlock`], [`LockError::InvalidKey`],
    /// [`LockError::InvalidOptions`], [`LockError::Closed`].
    ///
    /// # Cancel safety
    /// The future can be dropped at any time. A waiter then leaves the queue at once and loses its place. A lock that
    /// was just acquired is released in the background.
    ///
    /// A future that is kept but not polled (for example by `select!` on `&mut future` with a slow branch) may be
    /// granted the lock. This lock is not renewed. When the request's ttl is over, the lock is released and granted to
    /// the next waiter, with a warning and a [`LockEvent::NotTaken`](crate::LockEvent::NotTaken). If the future is
    /// polled again, the request continues to wait if its wait is not over. Otherwise it fails with
    /// [`LockError::Unavailable`]. If the request is for several keys, the same applies to the keys that it has already
    /// acquired.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("order:42").acquire().await?;
    /// // the critical section
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("lock", "SET NX PX", "LockContext"))]
    pub fn acquire(self) -> impl Future<Output = Result<Guard, LockError>> + Send + Sync + 'static {
        AcquireFuture::new(self)
    }

    /// Acquires the lock with one attempt, or waits as long as [`wait`](LockRequest::wait) or
    /// [`retry`](LockRequest::retry) allow. Returns `None` if the lock is busy.
    ///
    /// # Errors
    /// The errors of [`acquire`](LockRequest::acquire), except `Busy`.
    ///
    /// # Cancel safety
    /// As [`acquire`](LockRequest::acquire).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// match manager.lock("order:42").try_acquire().await? {
    ///     Some(guard) => guard.release().await?,
    ///     None => println!("another holder has it"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("tryLock", "try_lock"))]
    pub fn try_acquire(
        self,
    ) -> impl Future<Output = Result<Option<Guard>, LockError>> + Send + Sync + 'static {
        let once = if self.wait == Wait::Default { self.no_wait() } else { self };
        TryAcquireFuture(AcquireFuture::new(once))
    }

    /// Acquires the lock, runs `body` while holding it, and releases it before returning. If the lock is
    /// lost, the body is dropped at its next await point.
    ///
    /// ```
    /// # async fn doc() -> Result<(), distlock::LockError> {
    /// let manager = distlock::LockManager::in_memory();
    /// let sum = manager.lock("order:42").run(async |held| {
    ///     assert!(held.is_held());
    ///     40 + 2
    /// }).await?;
    /// # let _ = sum; Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`acquire`](LockRequest::acquire), and [`LockError::Lost`] if the body was stopped. If the body
    /// completes, its value is returned. A release that fails is logged, not returned.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body, then releases the lock in the background, even if the body has passed on
    /// clones of its handle. After that, the clones report the lock as not held, and [`lost`](Guard::lost) becomes
    /// ready.
    ///
    /// # Panics
    /// Panics if the body panics. The lock is then released in the background, as if the future were dropped.
    #[doc(alias("using", "with_lock", "executeWithLock", "critical section"))]
    pub async fn run<F, Fut>(self, body: F) -> Result<Fut::Output, LockError>
    where
        F: FnOnce(Held) -> Fut,
        Fut: Future,
    {
        let release = self.release_policy();
        let holding = Holding::new(AcquireFuture::new(self).await?, release);
        let held = holding.handle();
        let inner = held.clone();
        let body = pin!(Some(async move { body(inner).await }));
        let output = Hold::new(Some(held), OnLost::Cancel, body).await;
        drop(holding.begin_release().await);
        output
    }
}

/// The future of [`LockRequest::try_acquire`].
struct TryAcquireFuture(AcquireFuture);

impl Future for TryAcquireFuture {
    type Output = Result<Option<Guard>, LockError>;

    #[inline(never)]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|result| match result {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.is_busy() => Ok(None),
            Err(error) => Err(error),
        })
    }
}
