//! The same for threads.
//!
//! The runtime's futures need no executor of their own (connections and timers live on the manager's I/O
//! thread), so a thread simply parks until one is ready. That works on any thread, also on a worker of a
//! tokio runtime, which it blocks.
//!
//! ```
//! use distlock::blocking::LockManager;
//!
//! let manager = LockManager::in_memory();
//! let sum = manager.lock("order:42").run(|held| {
//!     assert!(held.is_held());
//!     40 + 2
//! })?;
//! # Ok::<(), distlock::LockError>(())
//! ```

mod leader;
mod looking;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::error::LockError;
use crate::finding::Finding;
use crate::held::Held;
use crate::key::IntoLockKey;
use crate::manager::{Health, LockInfo, LockManagerBuilder, ShutdownReport};
use crate::release::Release;
use crate::request::Acquire;
use crate::retry::Retry;
use crate::scope::{self, Add};
use crate::section::{Holding, hold_here};
pub use leader::{Candidate, LeaderWatch};
pub use looking::{Events, Locks};

/// A [`LockManager`](crate::LockManager) for threads. The two convert into each other and share everything.
#[derive(Clone, Debug)]
pub struct LockManager(crate::LockManager);

impl From<crate::LockManager> for LockManager {
    fn from(manager: crate::LockManager) -> Self {
        LockManager(manager)
    }
}

impl From<LockManager> for crate::LockManager {
    fn from(manager: LockManager) -> Self {
        manager.0
    }
}

impl LockManager {
    /// See [`connect`](crate::LockManager::connect).
    ///
    /// # Errors
    /// The same.
    pub fn connect(url: impl AsRef<str>) -> Result<Self, LockError> {
        block_on(crate::LockManager::connect(url)).map(LockManager)
    }

    /// See [`connect_lazy`](crate::LockManager::connect_lazy).
    ///
    /// # Errors
    /// The same.
    pub fn connect_lazy(url: impl AsRef<str>) -> Result<Self, LockError> {
        crate::LockManager::connect_lazy(url).map(LockManager)
    }

    /// Connects as a [builder](crate::LockManager::builder) says; see
    /// [`LockManagerBuilder::connect`](crate::LockManagerBuilder::connect).
    ///
    /// ```
    /// use distlock::blocking::LockManager;
    ///
    /// let builder = distlock::LockManager::builder().url("memory:").client_name("import");
    /// let manager = LockManager::connect_with(builder)?;
    /// # assert!(manager.health().is_ready());
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    ///
    /// # Errors
    /// The same.
    pub fn connect_with(builder: LockManagerBuilder) -> Result<Self, LockError> {
        block_on(builder.connect()).map(LockManager)
    }

    /// See [`in_memory`](crate::LockManager::in_memory).
    #[must_use]
    pub fn in_memory() -> Self {
        LockManager(crate::LockManager::in_memory())
    }

    /// See [`from_env`](crate::LockManager::from_env).
    ///
    /// # Errors
    /// The same.
    pub fn from_env() -> Result<Self, LockError> {
        block_on(crate::LockManager::from_env()).map(LockManager)
    }

    /// See [`current`](crate::LockManager::current).
    ///
    /// # Errors
    /// The same.
    pub fn current() -> Result<Self, LockError> {
        crate::LockManager::current().map(LockManager)
    }

    /// See [`lock`](crate::LockManager::lock).
    pub fn lock(&self, key: impl IntoLockKey) -> LockRequest {
        LockRequest(self.0.lock(key))
    }

    /// See [`lock_all`](crate::LockManager::lock_all).
    pub fn lock_all<K: IntoLockKey>(&self, keys: impl IntoIterator<Item = K>) -> LockRequest {
        LockRequest(self.0.lock_all(keys))
    }

    /// See [`inspect`](crate::LockManager::inspect).
    ///
    /// # Errors
    /// The same.
    pub fn inspect(&self, key: impl IntoLockKey) -> Result<Option<LockInfo>, LockError> {
        block_on(self.0.inspect(key))
    }

    /// See [`list`](crate::LockManager::list).
    ///
    /// ```
    /// use distlock::blocking::LockManager;
    ///
    /// let manager = LockManager::in_memory();
    /// let _guard = manager.lock("order:42").acquire()?;
    /// let mut locks = manager.list("order:*");
    /// for lock in locks.by_ref() {
    ///     let lock = lock?;
    ///     println!("{}: {} holders, {} processes wait", lock.key, lock.holders.len(), lock.waiting.len());
    /// }
    /// assert!(locks.unanswered().is_empty());
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn list(&self, pattern: impl AsRef<str>) -> Locks {
        Locks::new(self.0.list(pattern))
    }

    /// See [`health`](crate::LockManager::health).
    #[must_use]
    pub fn health(&self) -> Health {
        self.0.health()
    }

    /// See [`diagnose`](crate::LockManager::diagnose).
    ///
    /// # Errors
    /// The same.
    pub fn diagnose(&self) -> Result<Vec<Finding>, LockError> {
        block_on(self.0.diagnose())
    }

    /// See [`events`](crate::LockManager::events).
    #[must_use]
    pub fn events(&self) -> Events {
        Events::new(self.0.events())
    }

    /// See [`leader`](crate::LockManager::leader).
    pub fn leader(&self, name: impl IntoLockKey) -> Candidate {
        Candidate::new(self.0.leader(name))
    }

    /// See [`force_release`](crate::LockManager::force_release).
    ///
    /// # Errors
    /// The same.
    pub fn force_release(&self, key: impl IntoLockKey) -> Result<bool, LockError> {
        block_on(self.0.force_release(key))
    }

    /// See [`shutdown`](crate::LockManager::shutdown).
    #[must_use]
    pub fn shutdown(&self, grace: Duration) -> ShutdownReport {
        block_on(self.0.shutdown(grace))
    }
}

/// Runs `work` with `manager` as the default for annotated functions called on this thread.
pub fn with_manager<T>(manager: impl Into<crate::LockManager>, work: impl FnOnce() -> T) -> T {
    let _entered = scope::enter_thread(Add::Manager(manager.into().handle()));
    work()
}

/// A [`LockRequest`](crate::LockRequest) for threads.
#[must_use = "a request does nothing until it is acquired, tried or run"]
#[derive(Debug)]
pub struct LockRequest(crate::LockRequest);

macro_rules! same_options {
    ($($name:ident($($argument:ident: $type:ty)?)),* $(,)?) => {$(
        #[doc = concat!("See [`", stringify!($name), "`](crate::LockRequest::", stringify!($name), ").")]
        pub fn $name(self $(, $argument: $type)?) -> Self {
            LockRequest(self.0.$name($($argument)?))
        }
    )*};
}

impl LockRequest {
    same_options! {
        ttl(ttl: Duration),
        wait(wait: Duration),
        no_wait(),
        wait_forever(),
        retry(retry: Retry),
        no_renew(),
        max_hold(max_hold: Duration),
        min_hold(min_hold: Duration),
        release(release: Release),
        linger(linger: impl Into<Option<Duration>>),
        warn_wait(limit: Duration),
        warn_hold(limit: Duration),
        fenced(),
        shared(),
        max_holders(limit: u32),
        max_waiters(most: u32),
        reentrant(),
        label(label: impl Into<Cow<'static, str>>),
    }

    /// See [`acquire`](crate::LockRequest::acquire).
    ///
    /// # Errors
    /// The same.
    pub fn acquire(self) -> Result<Guard, LockError> {
        block_on(self.0.acquire()).map(Guard)
    }

    /// See [`try_acquire`](crate::LockRequest::try_acquire).
    ///
    /// # Errors
    /// The same.
    pub fn try_acquire(self) -> Result<Option<Guard>, LockError> {
        Ok(block_on(self.0.try_acquire())?.map(Guard))
    }

    /// Acquires the lock, runs `body` while keeping it, and releases it before returning. A thread cannot be
    /// stopped: a body of many steps should [`check`](crate::Guard::check) between them.
    ///
    /// # Errors
    /// As [`acquire`](crate::LockRequest::acquire), and [`LockError::Lost`] if the lock was lost before the
    /// body ended: what it did may have overlapped with another holder.
    ///
    /// # Panics
    /// If the body does; the lock is released in the background.
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
    Ok(Holding::new(block_on(Acquire::new(request))?, release))
}

/// Releases; `Err` if the lock had been lost.
#[inline(never)]
fn release_checked(holding: &Holding) -> Result<(), LockError> {
    let kept = holding.handle().check();
    drop(block_on(holding.begin_release()));
    kept
}

/// A [`Guard`](crate::Guard) for threads; dereferences to it.
#[must_use = "a guard that is dropped at once protects nothing"]
#[derive(Debug)]
pub struct Guard(crate::Guard);

impl Guard {
    /// See [`release`](crate::Guard::release).
    ///
    /// # Errors
    /// The same.
    pub fn release(self) -> Result<(), LockError> {
        block_on(self.0.release())
    }

    /// See [`extend`](crate::Guard::extend).
    ///
    /// # Errors
    /// The same.
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

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future of this crate on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    // On a worker of a tokio runtime, a task that has used up its budget gets its wake-ups only after it has
    // yielded, which a parked thread never does.
    let mut future = pin!(tokio::task::unconstrained(future));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            // May return early: then the future is simply polled once more.
            Poll::Pending => thread::park(),
        }
    }
}
