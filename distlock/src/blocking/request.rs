//! Requests and guards for threads.

use std::borrow::Cow;
use std::ops::Deref;
use std::time::Duration;

use super::parking::block_on;
use crate::error::LockError;
use crate::held::Held;
use crate::release::Release;
use crate::request::AcquireFuture;
use crate::retry::Retry;
use crate::section::{Holding, hold_here};
use crate::ticket::Ticket;

/// A [`LockRequest`](crate::LockRequest) for threads.
///
/// ```
/// # let manager = distlock::blocking::LockManager::in_memory();
/// use std::time::Duration;
///
/// let request = manager.lock("order:42").ttl(Duration::from_secs(10)).wait(Duration::from_secs(3));
/// let guard = request.acquire()?;
/// # drop(guard);
/// # Ok::<(), distlock::LockError>(())
/// ```
#[must_use = "a request does nothing until it is acquired, tried or run"]
#[derive(Debug)]
pub struct LockRequest(pub(super) crate::LockRequest);

macro_rules! same_options {
    ($($name:ident($($argument:ident: $type:ty)?) => $example:literal,)*) => {$(
        #[doc = concat!("See [`", stringify!($name), "`](crate::LockRequest::", stringify!($name), ").\n\n")]
        #[doc = "```\n# use std::time::Duration;\n# use distlock::{Release, Retry};"]
        #[doc = "# let manager = distlock::blocking::LockManager::in_memory();"]
        #[doc = concat!("let guard = manager.lock(\"order:42\").", $example, ".acquire()?;")]
        #[doc = "# drop(guard); Ok::<(), distlock::LockError>(())\n```"]
        pub fn $name(self $(, $argument: $type)?) -> Self {
            LockRequest(self.0.$name($($argument)?))
        }
    )*};
}

impl LockRequest {
    same_options! {
        ttl(ttl: Duration) => "ttl(Duration::from_secs(10))",
        wait(wait: Duration) => "wait(Duration::from_secs(3))",
        no_wait() => "no_wait()",
        wait_forever() => "wait_forever()",
        retry(retry: Retry) => "retry(Retry::times(3))",
        no_renew() => "no_renew()",
        max_hold(max_hold: Duration) => "max_hold(Duration::from_secs(600))",
        min_hold(min_hold: Duration) => "min_hold(Duration::from_secs(1))",
        release(release: Release) => "release(Release::Background)",
        linger(linger: impl Into<Option<Duration>>) => "linger(Duration::from_millis(50))",
        warn_wait(limit: Duration) => "warn_wait(Duration::from_secs(5))",
        warn_hold(limit: Duration) => "warn_hold(Duration::from_secs(60))",
        fenced() => "fenced()",
        shared() => "shared()",
        max_holders(limit: u32) => "max_holders(3)",
        max_waiters(most: u32) => "max_waiters(1000)",
        reentrant() => "reentrant()",
        label(label: impl Into<Cow<'static, str>>) => "label(\"order\")",
    }

    /// See [`acquire`](crate::LockRequest::acquire).
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let guard = manager.lock("order:42").acquire()?;
    /// // the critical section
    /// guard.release()?;
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn acquire(self) -> Result<Guard, LockError> {
        block_on(self.0.acquire()).map(Guard)
    }

    /// See [`try_acquire`](crate::LockRequest::try_acquire).
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// match manager.lock("order:42").try_acquire()? {
    ///     Some(guard) => guard.release()?,
    ///     None => println!("another holder has it"),
    /// }
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn try_acquire(self) -> Result<Option<Guard>, LockError> {
        Ok(block_on(self.0.try_acquire())?.map(Guard))
    }

    /// Acquires the lock, runs `body` while holding it, and releases it before returning. A thread cannot be stopped,
    /// so a body of many steps should [`check`](crate::Guard::check) the lock between them.
    ///
    /// # Errors
    /// The errors of [`acquire`](crate::LockRequest::acquire), and [`LockError::Lost`] if the lock was lost before the
    /// body ended. The body's work may then have overlapped with the work of another holder.
    ///
    /// # Panics
    /// Panics if the body panics. The lock is then released in the background.
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let imported = manager.lock("import").run(|held| {
    ///     let mut rows = 0;
    ///     while rows < 1000 && held.is_held() {
    ///         rows += 1; // one step of the work
    ///     }
    ///     rows
    /// })?;
    /// assert_eq!(imported, 1000);
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn run<T>(self, body: impl FnOnce(Held) -> T) -> Result<T, LockError> {
        let holding = holding(self.0)?;
        let held = holding.handle();
        let output = hold_here(held, || body(held.clone()));
        release_checked(&holding).map(|()| output)
    }
}

// Not generic, so that they are compiled once, in this crate.

#[inline(never)]
fn holding(request: crate::LockRequest) -> Result<Holding, LockError> {
    let release = request.release_policy();
    Ok(Holding::new(block_on(AcquireFuture::new(request))?, release))
}

/// Releases; `Err` if the lock had been lost. The reply may show it, for example after a release by force, before a
/// renewal does.
#[inline(never)]
fn release_checked(holding: &Holding) -> Result<(), LockError> {
    let kept = holding.handle().check();
    let released = block_on(holding.begin_release());
    kept?;
    match released {
        Err(error) if error.is_lost() => Err(error),
        _ => Ok(()),
    }
}

/// A [`Guard`](crate::Guard) for threads. It dereferences to `Guard`.
///
/// ```
/// # let manager = distlock::blocking::LockManager::in_memory();
/// let guard = manager.lock("order:42").acquire()?;
/// guard.check()?; // between long steps, without I/O
/// guard.release()?; // or drop it: then it is released in the background
/// # Ok::<(), distlock::LockError>(())
/// ```
#[must_use = "a guard that is dropped at once protects nothing"]
#[derive(Debug)]
pub struct Guard(crate::Guard);

impl Guard {
    /// See [`release`](crate::Guard::release).
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let guard = manager.lock("order:42").acquire()?;
    /// guard.release()?;
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn release(self) -> Result<(), LockError> {
        block_on(self.0.release())
    }

    /// See [`hand_over`](crate::Guard::hand_over).
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let ticket = manager.lock("order:42").acquire()?.hand_over()?;
    /// let guard = manager.take_over(&ticket).acquire()?;
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn hand_over(self) -> Result<Ticket, LockError> {
        block_on(self.0.hand_over())
    }

    /// See [`extend`](crate::Guard::extend).
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// use std::time::Duration;
    ///
    /// let guard = manager.lock("import").ttl(Duration::from_secs(5)).acquire()?;
    /// guard.extend(Duration::from_secs(60))?;
    /// assert!(guard.remaining() > Duration::from_secs(50));
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn extend(&self, ttl: Duration) -> Result<(), LockError> {
        block_on(self.0.extend(ttl))
    }
}

impl Deref for Guard {
    type Target = crate::Guard;

    fn deref(&self) -> &crate::Guard {
        &self.0
    }
}
