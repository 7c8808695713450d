//! Leadership for threads.

use std::borrow::Cow;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use super::parking::block_on;
use crate::error::LockError;
use crate::leader::{self, Lead, Leadership};
use distlock_store::FencingToken;

/// A [`Candidate`](crate::leader::Candidate) for threads.
///
/// ```
/// use distlock::blocking::LockManager;
///
/// let manager = LockManager::in_memory(); // or LockManager::connect("redis://127.0.0.1/")?
/// let mut jobs = vec!["mail", "report"];
/// manager.leader("scheduler").run(|lead| {
///     while lead.is_leader() && !lead.is_closing() {
///         let Some(job) = jobs.pop() else { return };
///         println!("{job} in term {}", lead.term());
///     }
/// })?;
/// # assert!(jobs.is_empty());
/// # Ok::<(), distlock::LockError>(())
/// ```
#[must_use = "a candidate does nothing until it runs"]
#[derive(Clone, Debug)]
pub struct Candidate(leader::Candidate);

impl Candidate {
    pub(super) fn new(candidate: leader::Candidate) -> Self {
        Candidate(candidate)
    }

    /// See [`ttl`](crate::leader::Candidate::ttl).
    ///
    /// ```
    /// use std::time::Duration;
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let candidate = manager.leader("mailer").ttl(Duration::from_secs(10));
    /// # drop(candidate);
    /// ```
    pub fn ttl(self, ttl: Duration) -> Self {
        Candidate(self.0.ttl(ttl))
    }

    /// See [`label`](crate::leader::Candidate::label).
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let candidate = manager.leader("mailer").label("mailer");
    /// # drop(candidate);
    /// ```
    pub fn label(self, label: impl Into<Cow<'static, str>>) -> Self {
        Candidate(self.0.label(label))
    }

    /// See [`value`](crate::leader::Candidate::value).
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let candidate = manager.leader("mailer").value("10.0.0.7:8080");
    /// # drop(candidate);
    /// ```
    pub fn value(self, value: impl Into<Arc<str>>) -> Self {
        Candidate(self.0.value(value))
    }

    /// Campaigns, runs `body` while this candidate is the leader, and resigns when the body returns. A thread cannot be
    /// stopped, so a body of many steps should check [`is_leader`](Lead::is_leader) between them, and return when it is
    /// false. If the term is lost before the body returns, the returned value is dropped, and the candidate campaigns
    /// again.
    ///
    /// # Errors
    /// See [`run`](crate::leader::Candidate::run).
    ///
    /// # Panics
    /// Panics if the body panics. The candidate then resigns in the background.
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let sent = manager.leader("mailer").run(|lead| {
    ///     println!("I lead, in term {}", lead.term());
    ///     3 // what `run` returns
    /// })?;
    /// assert_eq!(sent, 3);
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn run<T>(&self, mut body: impl FnMut(Lead) -> T) -> Result<T, LockError> {
        block_on(self.0.run(|lead| {
            let done = body(lead.clone());
            held_to_the_end(lead, done)
        }))
    }

    /// See [`is_leader`](crate::leader::Candidate::is_leader).
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let candidate = manager.leader("mailer");
    /// candidate.run(|_lead| assert!(candidate.is_leader()))?;
    /// assert!(!candidate.is_leader());
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.0.is_leader()
    }

    /// See [`term`](crate::leader::Candidate::term).
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let candidate = manager.leader("mailer");
    /// assert_eq!(candidate.term(), None, "it does not lead");
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    #[must_use]
    pub fn term(&self) -> Option<FencingToken> {
        self.0.term()
    }

    /// See [`health`](crate::leader::Candidate::health).
    ///
    /// # Errors
    /// [`LockError::Lost`], with the reason why the term ended. [`LockError::Unavailable`] if this process was forked.
    ///
    /// ```
    /// use std::time::Duration;
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// manager.leader("mailer").health(Duration::from_secs(20))?;
    /// # Ok::<(), distlock::LockError>(())
    /// ```
    pub fn health(&self, tolerance: Duration) -> Result<(), LockError> {
        self.0.health(tolerance)
    }

    /// See [`watch`](crate::leader::Candidate::watch).
    ///
    /// ```no_run
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let mut watch = manager.leader("mailer").watch();
    /// std::thread::spawn(move || {
    ///     loop {
    ///         println!("{:?}", watch.changed()); // waits until it changes
    ///     }
    /// });
    /// ```
    #[must_use]
    pub fn watch(&self) -> LeaderWatch {
        LeaderWatch(self.0.watch())
    }
}

/// The value that the body returned. If the term was lost, the loss.
async fn held_to_the_end<T>(lead: Lead, done: T) -> T {
    if lead.check().is_err() {
        pending::<()>().await;
    }
    done
}

/// A [`LeaderWatch`](crate::leader::LeaderWatch) for threads.
///
/// ```
/// # let manager = distlock::blocking::LockManager::in_memory();
/// let mut watch = manager.leader("mailer").watch();
/// println!("{:?}", watch.changed());
/// ```
#[derive(Debug)]
pub struct LeaderWatch(leader::LeaderWatch);

impl LeaderWatch {
    /// Waits until the leader is another one than the last returned one. The first call returns at once. See
    /// [`changed`](crate::leader::LeaderWatch::changed).
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// let mut watch = manager.leader("mailer").watch();
    /// println!("{:?}", watch.changed()); // who leads now; the next call waits for a change
    /// ```
    pub fn changed(&mut self) -> Leadership {
        block_on(self.0.changed())
    }

    /// See [`transitions`](crate::leader::LeaderWatch::transitions).
    ///
    /// ```
    /// # let manager = distlock::blocking::LockManager::in_memory();
    /// assert_eq!(manager.leader("mailer").watch().transitions(), 0);
    /// ```
    #[must_use]
    pub fn transitions(&self) -> u64 {
        self.0.transitions()
    }
}
