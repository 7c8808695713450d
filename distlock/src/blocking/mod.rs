//! Locks for programs without async: the same managers, requests and guards, with methods that block the thread.
//!
//! ```
//! use distlock::blocking::LockManager;
//!
//! let manager = LockManager::in_memory(); // or LockManager::connect("redis://127.0.0.1/")?
//! let sum = manager.lock("order:42").run(|held| {
//!     assert!(held.is_held());
//!     40 + 2
//! })?;
//! # Ok::<(), distlock::LockError>(())
//! ```
//!
//! The attribute also works on a plain `fn`. It uses the manager of [`init`](crate::init), or of [`with_manager`] here,
//! or the manager that its option names.
//!
//! ```
//! use distlock::blocking::{LockManager, with_manager};
//! use distlock::{LockError, distributed_lock};
//!
//! #[distributed_lock(key = "order:<id>", wait = "3s")]
//! fn pay(id: u64) -> Result<&'static str, LockError> {
//!     Ok("paid")
//! }
//!
//! assert_eq!(with_manager(LockManager::in_memory(), || pay(42))?, "paid");
//! # Ok::<(), LockError>(())
//! ```
//!
//! A thread that waits is parked until the manager's I/O thread wakes it. No runtime is needed. The methods can be
//! called on any thread. On a worker of a tokio runtime, they block that worker.

mod leader;
mod looking;
mod parking;
mod request;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::deadlock::Deadlock;
use crate::error::LockError;
use crate::key::IntoLockKey;
use crate::manager::{ForcedRelease, Health, LockInfo, LockManagerBuilder, ShutdownReport};
use crate::scope::{self, Add};
use crate::ticket::Ticket;
use distlock_store::Finding;
pub use leader::{Candidate, LeaderWatch};
pub use looking::{Events, Locks};
pub(crate) use parking::block_on;
pub use request::{Guard, LockRequest};

/// A [`LockManager`](crate::LockManager) for threads. The two convert into each other and share everything.
///
/// ```
/// use distlock::{LockManager, blocking};
///
/// let manager = LockManager::in_memory();
/// let on_threads = blocking::LockManager::from(manager.clone());
/// let guard = on_threads.lock("order:42").acquire()?;
/// assert!(on_threads.lock("order:42").try_acquire()?.is_none());
/// # drop((guard, manager));
/// # Ok::<(), distlock::LockError>(())
/// ```
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
    ///
    /// ```
    /// use distlock::blocking::LockManager;
    ///
    /// let manager = LockManager::connect("memory:")?; // or "redis://127.0.0.1/"
    /// manager.lock("order:42").run(|_held| { /* the work */ })?;
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn connect(url: impl AsRef<str>) -> Result<Self, LockError> {
        block_on(crate::LockManager::connect(url)).map(LockManager)
    }

    /// Returns a [`LockManagerBuilder`] for more options. Its
    /// [`connect_blocking`](LockManagerBuilder::connect_blocking) returns a manager for threads.
    ///
    /// ```
    /// use distlock::blocking::LockManager;
    ///
    /// let manager = LockManager::builder().url("memory:").client_name("checkout").connect_blocking()?;
    /// # drop(manager); Ok::<(), distlock::LockError>(())
    /// ```
    pub fn builder() -> LockManagerBuilder {
        crate::LockManager::builder()
    }

    /// See [`connect_lazy`](crate::LockManager::connect_lazy).
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// use distlock::blocking::LockManager;
    ///
    /// let manager = LockManager::connect_lazy("redis://127.0.0.1/")?;
    /// assert!(!manager.health().is_ready()); // it connects on first use
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn connect_lazy(url: impl AsRef<str>) -> Result<Self, LockError> {
        crate::LockManager::connect_lazy(url).map(LockManager)
    }

    /// See [`in_memory`](crate::LockManager::in_memory).
    ///
    /// ```
    /// use distlock::blocking::LockManager;
    ///
    /// LockManager::in_memory().lock("order:42").run(|_held| { /* the work */ })?;
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    #[must_use]
    pub fn in_memory() -> Self {
        LockManager(crate::LockManager::in_memory())
    }

    /// See [`from_env`](crate::LockManager::from_env).
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// use distlock::blocking::LockManager;
    ///
    /// match LockManager::from_env() {
    ///     Ok(manager) => manager.lock("order:42").run(|_held| { /* the work */ })?,
    ///     Err(error) => println!("{error}"), // DISTLOCK_URL is missing
    /// }
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn from_env() -> Result<Self, LockError> {
        block_on(crate::LockManager::from_env()).map(LockManager)
    }

    /// See [`current`](crate::LockManager::current).
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// use distlock::blocking::{LockManager, with_manager};
    ///
    /// with_manager(LockManager::in_memory(), || {
    ///     let manager = LockManager::current()?;
    ///     // Another thread does not inherit it.
    ///     let worker = std::thread::spawn(move || with_manager(manager, || { /* annotated functions */ }));
    ///     worker.join().expect("it does not panic");
    ///     Ok::<(), distlock::LockError>(())
    /// })?;
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn current() -> Result<Self, LockError> {
        crate::LockManager::current().map(LockManager)
    }

    /// See [`lock`](crate::LockManager::lock).
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let guard = manager.lock("order:42").acquire()?;
    /// assert_eq!(guard.key(), "order:42");
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn lock(&self, key: impl IntoLockKey) -> LockRequest {
        LockRequest(self.0.lock(key))
    }

    /// See [`take_over`](crate::LockManager::take_over).
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let ticket = manager.lock("order:42").acquire()?.hand_over()?;
    /// let guard = manager.take_over(&ticket).acquire()?;
    /// assert_eq!(guard.key(), "order:42");
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn take_over(&self, ticket: &Ticket) -> LockRequest {
        LockRequest(self.0.take_over(ticket))
    }

    /// See [`check_hand_over`](crate::LockManager::check_hand_over).
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// manager.check_hand_over()?;
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn check_hand_over(&self) -> Result<(), LockError> {
        self.0.check_hand_over()
    }

    /// See [`lock_all`](crate::LockManager::lock_all).
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let both = manager.lock_all(["account:1", "account:2"]).acquire()?;
    /// assert_eq!(both.keys().count(), 2);
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn lock_all<K: IntoLockKey>(&self, keys: impl IntoIterator<Item = K>) -> LockRequest {
        LockRequest(self.0.lock_all(keys))
    }

    /// See [`inspect`](crate::LockManager::inspect).
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let guard = manager.lock("order:42").acquire()?;
    /// let lock = manager.inspect("order:42")?.expect("it is held");
    /// assert_eq!(lock.holder, guard.owner());
    /// # Ok::<(), distlock::LockError>(())
    /// ```
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
    ///
    /// ```
    /// assert!(distlock::blocking::LockManager::in_memory().health().is_ready());
    /// ```
    #[must_use]
    pub fn health(&self) -> Health {
        self.0.health()
    }

    /// See [`diagnose`](crate::LockManager::diagnose).
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// for finding in manager.diagnose()? {
    ///     println!("{}: {}", finding.about, finding.text);
    /// }
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn diagnose(&self) -> Result<Vec<Finding>, LockError> {
        block_on(self.0.diagnose())
    }

    /// See [`deadlocks`](crate::LockManager::deadlocks).
    ///
    /// # Errors
    /// The same.
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// for deadlock in manager.deadlocks()? {
    ///     eprintln!("{deadlock}");
    /// }
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn deadlocks(&self) -> Result<Vec<Deadlock>, LockError> {
        block_on(self.0.deadlocks())
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
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let guard = manager.lock("order:42").acquire()?;
    /// assert!(manager.force_release("order:42")?);
    /// assert!(guard.release().unwrap_err().is_lost());
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn force_release(&self, key: impl IntoLockKey) -> Result<bool, LockError> {
        block_on(self.0.force_release(key))
    }

    /// See [`force_release_from`](crate::LockManager::force_release_from).
    ///
    /// # Errors
    /// Those of [`force_release_from`](crate::LockManager::force_release_from).
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let guard = manager.lock("order:42").acquire()?;
    /// let done = manager.force_release_from("order:42", guard.owner())?;
    /// assert_eq!(done, distlock::ForcedRelease::Released { from: guard.owner() });
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn force_release_from(
        &self,
        key: impl IntoLockKey,
        owner: impl AsRef<str>,
    ) -> Result<ForcedRelease, LockError> {
        block_on(self.0.force_release_from(key, owner))
    }

    /// See [`shutdown`](crate::LockManager::shutdown).
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// use std::time::Duration;
    ///
    /// let report = manager.shutdown(Duration::from_secs(5));
    /// assert_eq!(report.lost, 0);
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    #[must_use]
    pub fn shutdown(&self, grace: Duration) -> ShutdownReport {
        block_on(self.0.shutdown(grace))
    }
}

impl LockManagerBuilder {
    /// [`connect`](LockManagerBuilder::connect) for programs without async: blocks the thread, and makes a manager
    /// [for threads](crate::blocking).
    ///
    /// # Errors
    /// The errors of [`connect`](LockManagerBuilder::connect).
    ///
    /// ```
    /// use std::time::Duration;
    /// use distlock::LockManager;
    ///
    /// let builder = LockManager::builder().url("memory:").default_wait(Duration::from_secs(3));
    /// let manager = builder.connect_blocking()?;
    /// manager.lock("order:42").run(|_held| { /* the work */ })?;
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    #[doc(alias("sync", "synchronous"))]
    pub fn connect_blocking(self) -> Result<LockManager, LockError> {
        block_on(self.connect()).map(LockManager)
    }
}

/// Runs `work` with `manager` as the default for annotated functions called on this thread.
///
/// ```
/// use distlock::blocking::{LockManager, with_manager};
/// use distlock::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "order:<id>")]
/// fn pay(id: u64) -> Result<&'static str, LockError> {
///     Ok("paid")
/// }
///
/// assert_eq!(with_manager(LockManager::in_memory(), || pay(42))?, "paid");
/// # Ok::<(), distlock::LockError>(())
/// ```
pub fn with_manager<T>(manager: impl Into<crate::LockManager>, work: impl FnOnce() -> T) -> T {
    let _entered = scope::enter_thread(Add::Manager(manager.into().handle()));
    work()
}
