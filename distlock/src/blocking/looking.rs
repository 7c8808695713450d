//! Lists of locks and events, as iterators for threads.

use super::parking::block_on;
use crate::error::LockError;
use crate::manager::{self, LockClient, LockEntry};
use crate::observe::{self, LockEvent};

/// All locks, in the order of their keys: [`Locks`](crate::Locks) as an iterator. The thread waits for the next page.
///
/// ```
/// # let manager = distlock::blocking::LockManager::in_memory();
/// let guard = manager.lock("order:42").acquire()?;
/// let locks: Vec<_> = manager.list("*").collect::<Result<_, _>>()?;
/// assert_eq!(locks[0].key, "order:42");
/// # drop(guard); Ok::<(), distlock::LockError>(())
/// ```
#[derive(Debug)]
pub struct Locks(manager::Locks);

impl Locks {
    pub(super) fn new(locks: manager::Locks) -> Self {
        Locks(locks)
    }

    /// See [`clients`](crate::Locks::clients).
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let mut locks = manager.list("*");
    /// assert!(locks.next().is_none());
    /// println!("{} clients are there", locks.clients().len());
    /// ```
    #[must_use]
    pub fn clients(&self) -> &[LockClient] {
        self.0.clients()
    }

    /// See [`unanswered`](crate::Locks::unanswered).
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let mut locks = manager.list("*");
    /// assert!(locks.next().is_none() && locks.unanswered().is_empty());
    /// ```
    #[must_use]
    pub fn unanswered(&self) -> &[String] {
        self.0.unanswered()
    }

    /// See [`unread`](crate::Locks::unread).
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let mut locks = manager.list("*");
    /// assert!(locks.next().is_none() && locks.unread().is_empty());
    /// ```
    #[must_use]
    pub fn unread(&self) -> &[String] {
        self.0.unread()
    }
}

impl Iterator for Locks {
    type Item = Result<LockEntry, LockError>;

    fn next(&mut self) -> Option<Self::Item> {
        block_on(self.0.next())
    }
}

/// The events of a manager: [`Events`](crate::Events) as an iterator. The thread waits for the next event. The iterator
/// ends with the manager.
#[derive(Debug)]
pub struct Events(observe::Events);

impl Events {
    pub(super) fn new(events: observe::Events) -> Self {
        Events(events)
    }
}

impl Iterator for Events {
    type Item = LockEvent;

    fn next(&mut self) -> Option<LockEvent> {
        block_on(self.0.next())
    }
}
