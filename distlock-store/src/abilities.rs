//! The abilities and limits of a store.

use std::time::Duration;

use crate::key_rules::KeyRules;
use crate::lock_kind::LockKind;

/// The abilities of a store. A request that needs another ability fails before a command is sent: with
/// `LockError::InvalidOptions`, or with `InvalidKey` for a key that breaks the [`KeyRules`].
///
/// The default is the minimum for a store: exclusive locks, each with its own lease in milliseconds, and waiters that
/// poll.
///
/// ```
/// use std::time::Duration;
/// use distlock::store::{Abilities, Ability, Fencing, KeyRules, LeaseRule, Waiting};
///
/// let abilities = Abilities::default()
///     .shared()
///     .fencing(Fencing::OneByOne)
///     .waiting(Waiting::Notified)
///     .lease(LeaseRule::PerLock { granularity: Duration::from_secs(1) })
///     .longest_ttl(Duration::from_secs(30 * 24 * 3600))
///     .keys(KeyRules::any().at_most(250))
///     .lacks(Ability::MinHold, "an item that was deleted is gone")
///     .connects_within(Duration::from_secs(3));
/// assert!(format!("{abilities:?}").contains("Notified"));
/// ```
#[derive(Clone, Debug)]
pub struct Abilities {
    #[doc(hidden)]
    pub shared: bool,
    #[doc(hidden)]
    pub limited: bool,
    #[doc(hidden)]
    pub min_hold: bool,
    #[doc(hidden)]
    pub fencing: Option<Fencing>,
    #[doc(hidden)]
    pub waiting: Waiting,
    #[doc(hidden)]
    pub lease: LeaseRule,
    #[doc(hidden)]
    pub longest_ttl: Option<Duration>,
    #[doc(hidden)]
    pub keys: KeyRules,
    #[doc(hidden)]
    pub acquires_together: usize,
    #[doc(hidden)]
    pub renews_together: usize,
    /// The reasons for missing abilities.
    lacks: Vec<(Ability, &'static str)>,
    #[doc(hidden)]
    pub connects_within: Option<Duration>,
    #[doc(hidden)]
    pub lists: bool,
    #[doc(hidden)]
    pub publishes: bool,
    #[doc(hidden)]
    pub replaces: bool,
}

/// An ability that a store may lack: see [`Abilities::lacks`].
///
/// ```
/// use distlock::store::{Abilities, Ability};
///
/// let abilities = Abilities::default().lacks(Ability::Shared, "an item has one owner");
/// # drop(abilities);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// [`Abilities::shared`].
    Shared,
    /// [`Abilities::limited`].
    Limited,
    /// [`Abilities::min_hold`].
    MinHold,
    /// [`Abilities::fencing`].
    Fencing,
}

impl Default for Abilities {
    fn default() -> Self {
        Abilities {
            shared: false,
            limited: false,
            min_hold: false,
            fencing: None,
            waiting: Waiting::Polling,
            lease: LeaseRule::PerLock { granularity: Duration::from_millis(1) },
            longest_ttl: None,
            keys: KeyRules::any(),
            acquires_together: 1,
            renews_together: 1,
            lacks: Vec::new(),
            connects_within: None,
            lists: false,
            publishes: false,
            replaces: false,
        }
    }
}

impl Abilities {
    /// The store also keeps [shared](LockKind::Shared) locks.
    ///
    /// ```
    /// use distlock::store::Abilities;
    ///
    /// let abilities = Abilities::default().shared();
    /// assert!(abilities.keeps(distlock::LockKind::Shared));
    /// ```
    #[must_use]
    pub fn shared(self) -> Self {
        Abilities { shared: true, ..self }
    }

    /// The store also keeps [limited](LockKind::Limited) locks (semaphores).
    ///
    /// ```
    /// use distlock::store::Abilities;
    ///
    /// let abilities = Abilities::default().limited();
    /// assert!(abilities.keeps(distlock::LockKind::Limited { max_holders: 3 }));
    /// ```
    #[must_use]
    pub fn limited(self) -> Self {
        Abilities { limited: true, ..self }
    }

    /// A release can leave the key taken for a while: [`Release::keep`](super::Release::keep).
    ///
    /// ```
    /// use distlock::store::Abilities;
    ///
    /// let abilities = Abilities::default().min_hold();
    /// # drop(abilities);
    /// ```
    #[must_use]
    pub fn min_hold(self) -> Self {
        Abilities { min_hold: true, ..self }
    }

    /// Exclusive locks have fencing tokens if the request asks for them.
    ///
    /// ```
    /// use distlock::store::{Abilities, Fencing};
    ///
    /// let abilities = Abilities::default().fencing(Fencing::Blocks);
    /// # drop(abilities);
    /// ```
    #[must_use]
    pub fn fencing(self, fencing: Fencing) -> Self {
        Abilities { fencing: Some(fencing), ..self }
    }

    /// How waiters learn that a lock is free.
    ///
    /// ```
    /// use distlock::store::{Abilities, Waiting};
    ///
    /// let abilities = Abilities::default().waiting(Waiting::Notified);
    /// # drop(abilities);
    /// ```
    #[must_use]
    pub fn waiting(self, waiting: Waiting) -> Self {
        Abilities { waiting, ..self }
    }

    /// How the lease of a dead holder ends.
    ///
    /// ```
    /// use distlock::store::{Abilities, LeaseRule};
    ///
    /// let abilities = Abilities::default().lease(LeaseRule::Session);
    /// # drop(abilities);
    /// ```
    #[must_use]
    pub fn lease(self, lease: LeaseRule) -> Self {
        Abilities { lease, ..self }
    }

    /// The longest ttl that the store can keep. A ttl that is rounded up must still fit.
    ///
    /// ```
    /// use distlock::store::Abilities;
    ///
    /// let abilities = Abilities::default().longest_ttl(std::time::Duration::from_secs(30 * 24 * 3600));
    /// # drop(abilities);
    /// ```
    #[must_use]
    pub fn longest_ttl(self, longest: Duration) -> Self {
        Abilities { longest_ttl: Some(longest), ..self }
    }

    /// The keys that the store can keep. The manager's prefix counts as a part of the key.
    ///
    /// ```
    /// use distlock::store::{Abilities, KeyRules};
    ///
    /// let abilities = Abilities::default().keys(KeyRules::any().at_most(250));
    /// # drop(abilities);
    /// ```
    #[must_use]
    pub fn keys(self, keys: KeyRules) -> Self {
        Abilities { keys, ..self }
    }

    /// [`LockStore::acquire_all`](super::LockStore::acquire_all) acquires up to this many keys by one command. Requests
    /// for several keys do not need this ability: without it, the keys are acquired one after the other.
    ///
    /// ```
    /// use distlock::store::Abilities;
    ///
    /// let abilities = Abilities::default().acquires_together(100);
    /// # drop(abilities);
    /// ```
    #[must_use]
    pub fn acquires_together(self, most: usize) -> Self {
        Abilities { acquires_together: most.max(1), ..self }
    }

    /// [`LockStore::renew_all`](super::LockStore::renew_all) renews up to this many leases by one command.
    ///
    /// ```
    /// use distlock::store::Abilities;
    ///
    /// let abilities = Abilities::default().renews_together(100);
    /// # drop(abilities);
    /// ```
    #[must_use]
    pub fn renews_together(self, most: usize) -> Self {
        Abilities { renews_together: most.max(1), ..self }
    }

    /// Why the store lacks `ability`. The error of a request that needs it shows this text. It follows a colon, and has
    /// no full stop. It has no effect if the store has the ability.
    ///
    /// ```
    /// use distlock::store::{Abilities, Ability};
    ///
    /// let abilities = Abilities::default().lacks(Ability::MinHold, "an item that was deleted is gone");
    /// # drop(abilities);
    /// ```
    #[must_use]
    pub fn lacks(mut self, ability: Ability, reason: &'static str) -> Self {
        self.lacks.retain(|(other, _)| *other != ability);
        self.lacks.push((ability, reason));
        self
    }

    /// How long one attempt to connect may take. `LockManager::connect` does not fail earlier. It tries for at least 5
    /// s.
    ///
    /// ```
    /// use distlock::store::Abilities;
    ///
    /// let abilities = Abilities::default().connects_within(std::time::Duration::from_secs(10));
    /// # drop(abilities);
    /// ```
    #[must_use]
    pub fn connects_within(self, limit: Duration) -> Self {
        Abilities { connects_within: Some(limit), ..self }
    }

    /// `: ` and the reason, if the store gives one.
    #[doc(hidden)]
    #[must_use]
    pub fn reason(&self, ability: Ability) -> String {
        let reason = self.lacks.iter().find(|(lacking, _)| *lacking == ability);
        reason.map(|(_, reason)| format!(": {reason}")).unwrap_or_default()
    }

    /// [`LockStore::list`](super::LockStore::list) lists all locks.
    ///
    /// ```
    /// use distlock::store::Abilities;
    ///
    /// let abilities = Abilities::default().lists();
    /// # drop(abilities);
    /// ```
    #[must_use]
    pub fn lists(self) -> Self {
        Abilities { lists: true, ..self }
    }

    /// The store implements [`LockStore::publish`](super::LockStore::publish).
    ///
    /// ```
    /// let abilities = distlock::store::Abilities::default().publishes();
    /// # drop(abilities);
    /// ```
    #[must_use]
    pub fn publishes(self) -> Self {
        Abilities { publishes: true, ..self }
    }

    /// It implements [`LockStore::replace`](super::LockStore::replace): locks can be handed over to other processes.
    ///
    /// ```
    /// let abilities = distlock::store::Abilities::default().replaces();
    /// # drop(abilities);
    /// ```
    #[must_use]
    pub fn replaces(self) -> Self {
        Abilities { replaces: true, ..self }
    }

    /// Whether the store keeps locks of this kind.
    ///
    /// ```
    /// use distlock::store::Abilities;
    ///
    /// let abilities = Abilities::default();
    /// assert!(abilities.keeps(distlock::LockKind::Exclusive));
    /// assert!(!abilities.keeps(distlock::LockKind::Shared));
    /// ```
    #[must_use]
    pub fn keeps(&self, kind: LockKind) -> bool {
        match kind {
            LockKind::Exclusive => true,
            LockKind::Shared => self.shared,
            LockKind::Limited { .. } => self.limited,
        }
    }
}

/// How a store makes fencing tokens.
///
/// ```
/// use distlock::store::{Abilities, Fencing};
///
/// let abilities = Abilities::default().fencing(Fencing::OneByOne);
/// # drop(abilities);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fencing {
    /// The store can reserve [`Acquire::fences`](super::Acquire::fences) consecutive numbers, so that tasks of one
    /// process hand the lock on without a command. A separate counter can do this.
    Blocks,
    /// One number at a time: `fences` is never above one. Declare this for a number that other keys also use up, such
    /// as a revision of the whole store, because the next numbers belong to other holders.
    OneByOne,
}

/// How waiters learn that a lock is free.
///
/// ```
/// use distlock::store::{Abilities, Waiting};
///
/// let abilities = Abilities::default().waiting(Waiting::Queued);
/// # drop(abilities);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Waiters poll. The pauses grow from 10 ms to 100 ms. Each pause is random, from half of this time to all of it.
    /// [`Acquire::queue`](super::Acquire::queue) is always `None`.
    Polling,
    /// Waiters poll with other pauses, for example because the store is distant, or because each request costs money.
    /// The pause begins with `first` and doubles up to `longest`.
    PolledEvery {
        /// At least 1 ms.
        first: Duration,
        /// At least `first`.
        longest: Duration,
    },
    /// The store reports [`StoreEvents::released`](super::StoreEvents::released) within
    /// [`NOTIFIED_WITHIN`](super::NOTIFIED_WITHIN) and keeps no queue. The first waiter that asks gets the lock. A lost
    /// report delays a waiter by up to 2.4 s. If [`Acquire::queue`](super::Acquire::queue) is set, the owner will wait.
    Notified,
    /// The store keeps a queue. When a lock is released, the store grants it to the next owner in the queue and reports
    /// [`StoreEvents::granted`](super::StoreEvents::granted), or leaves it free and reports
    /// [`released`](super::StoreEvents::released). A lost report delays a waiter by up to 2.4 s.
    Queued,
}

impl Waiting {
    /// The store notifies waiters when a lock is released.
    #[doc(hidden)]
    #[must_use]
    pub fn is_told(self) -> bool {
        matches!(self, Waiting::Notified | Waiting::Queued)
    }
}

/// How the lease of a dead holder ends.
///
/// ```
/// use std::time::Duration;
/// use distlock::store::{Abilities, LeaseRule};
///
/// // A store that counts in whole seconds.
/// let rule = LeaseRule::PerLock { granularity: Duration::from_secs(1) };
/// let abilities = Abilities::default().lease(rule);
/// # drop(abilities);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseRule {
    /// Every lock has its own ttl, which the store counts.
    ///
    /// Ttls are passed in whole multiples of `granularity`, rounded up. The holder counts the requested ttl, so a
    /// coarse ttl excludes others a little longer, and never causes two holders.
    PerLock {
        /// The smallest difference between two ttls that the store can distinguish. At least 1 ms.
        granularity: Duration,
    },
    /// All locks of the process live as long as its session. The store's code keeps the session alive, and reports it
    /// by [`StoreEvents::heartbeat`](super::StoreEvents::heartbeat) and
    /// [`session_lost`](super::StoreEvents::session_lost).
    ///
    /// A lock is held until the time-out of the session has passed since the last answered heartbeat, and not beyond
    /// its own ttl. This process counts the ttl, and releases the lock when it is over. A crashed holder delays others
    /// by the time-out instead of its ttl. [`LockStore::renew`](super::LockStore::renew) only reports whether the owner
    /// still holds the lock.
    Session,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_keeps_exclusive_locks_at_least() {
        let least = Abilities::default();
        assert!(least.keeps(LockKind::Exclusive) && !least.keeps(LockKind::Shared));
        assert!(least.limited().keeps(LockKind::Limited { max_holders: 2 }));
    }

    #[test]
    fn the_last_reason_counts() {
        let abilities = Abilities::default().lacks(Ability::Shared, "a").lacks(Ability::Shared, "b");
        assert_eq!(
            (abilities.reason(Ability::Shared).as_str(), abilities.reason(Ability::Limited).as_str()),
            (": b", "")
        );
    }
}
