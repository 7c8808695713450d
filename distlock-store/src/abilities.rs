//! What a store can do, and where its limits are.

use std::fmt;
use std::time::Duration;

use crate::lock_kind::LockKind;

/// What a store can do. A request for anything else fails before a command is sent:
/// `LockError::InvalidOptions`, or
/// `InvalidKey` for a key that breaks the [`KeyRules`].
///
/// The default is the least that a store must do: exclusive locks with a lease of their own, in milliseconds,
/// which waiters poll for.
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
    /// Why it cannot do what it cannot.
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

/// What a store may lack: see [`Abilities::lacks`].
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
    /// It keeps [shared](LockKind::Shared) locks, too.
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

    /// It keeps [limited](LockKind::Limited) locks (semaphores), too.
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

    /// Exclusive locks have fencing tokens if that is asked for.
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

    /// What ends the lease of a holder that has died.
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

    /// The longest ttl that it can keep. Nothing is subtracted: what is rounded up must still fit.
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

    /// Which keys it can keep. The manager's prefix counts as a part of the key.
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

    /// [`LockStore::acquire_all`](super::LockStore::acquire_all) takes so many keys by one command. Requests
    /// for several keys need no ability: a store without this one is asked for one key after the other.
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

    /// [`LockStore::renew_all`](super::LockStore::renew_all) renews so many leases by one command.
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

    /// Why it does not have `ability`: the error of a request that needs it says so. A part of a sentence that
    /// follows a colon, without a full stop. Without meaning if it has the ability.
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

    /// How long one attempt to connect may take: `LockManager::connect` does not give
    /// up earlier. It tries for 5 s at least.
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

    /// `: ` and the reason, if the store has given one.
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

    /// It implements [`LockStore::publish`](super::LockStore::publish).
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

    /// Whether it keeps locks of this kind.
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
    /// It can reserve as many consecutive numbers as [`Acquire::fences`](super::Acquire::fences) says, so that
    /// tasks of one process hand the lock on without asking. A counter of its own can.
    Blocks,
    /// One number at a time: `fences` is never above one. A number that others use up too, as a revision of the
    /// whole store, must be declared so: the ones after it belong to somebody else.
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
    /// They ask again: after 10 ms at first, after 100 ms in the end, each time after a random part of that, half of it
    /// at least. [`Acquire::queue`](super::Acquire::queue) is always `None`.
    Polling,
    /// The same with other pauses, as for a store that is far away, or where each request has a price: the first one,
    /// then each time twice as long, up to the longest.
    PolledEvery {
        /// At least 1 ms.
        first: Duration,
        /// At least as long as the first.
        longest: Duration,
    },
    /// The store reports [`StoreEvents::released`](super::StoreEvents::released) within
    /// [`NOTIFIED_WITHIN`](super::NOTIFIED_WITHIN) and keeps no queue; who asks first gets the lock. A report that is
    /// lost costs a waiter up to 2.4 s. [`Acquire::queue`](super::Acquire::queue) says that somebody waits.
    Notified,
    /// The store keeps a queue. When a lock is released it gives it to the next in the queue and tells it by
    /// [`StoreEvents::granted`](super::StoreEvents::granted), or leaves it free and tells it by
    /// [`released`](super::StoreEvents::released). A report that is lost costs a waiter up to 2.4 s.
    Queued,
}

impl Waiting {
    /// The store tells waiters when a lock is released.
    #[doc(hidden)]
    #[must_use]
    pub fn is_told(self) -> bool {
        matches!(self, Waiting::Notified | Waiting::Queued)
    }
}

/// What ends the lease of a holder that has died.
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
    /// Every lock has a ttl of its own, which the store counts.
    ///
    /// Ttls are passed in whole multiples of `granularity`, rounded up. The holder counts what was asked for: a
    /// coarse ttl keeps others out a little longer, and never makes two holders.
    PerLock {
        /// The smallest difference between two ttls that the store can tell; at least 1 ms.
        granularity: Duration,
    },
    /// All locks of the process live as long as its session with the store, which the store keeps alive by
    /// itself and reports by [`StoreEvents::heartbeat`](super::StoreEvents::heartbeat) and
    /// [`session_lost`](super::StoreEvents::session_lost).
    ///
    /// A lock is held until the last heartbeat that was answered, plus the time-out of the session, has passed,
    /// and not beyond its own ttl, which this process counts: a lock whose ttl is over is released by it. A
    /// crashed holder delays others by the time-out instead of its ttl.
    /// [`LockStore::renew`](super::LockStore::renew) only says whether the lock is still ours.
    Session,
}

/// Which keys a store can keep, prefix included.
///
/// ```
/// use distlock::store::KeyRules;
///
/// let rules = KeyRules::any().at_most(250).without(char::is_whitespace, "white space");
/// # drop(rules);
/// ```
#[derive(Clone)]
pub struct KeyRules {
    at_most: Option<usize>,
    refuses: Option<Refused>,
}

/// Which characters, and what they are called.
type Refused = (fn(char) -> bool, &'static str);

impl KeyRules {
    /// Every key: up to 1 280 bytes of UTF-8 with any characters in them.
    ///
    /// ```
    /// use distlock::store::KeyRules;
    ///
    /// let rules = KeyRules::any();
    /// # drop(rules);
    /// ```
    #[must_use]
    pub fn any() -> Self {
        KeyRules { at_most: None, refuses: None }
    }

    /// No key of more than so many bytes.
    ///
    /// ```
    /// use distlock::store::KeyRules;
    ///
    /// let rules = KeyRules::any().at_most(250);
    /// # drop(rules);
    /// ```
    #[must_use]
    pub fn at_most(self, bytes: usize) -> Self {
        KeyRules { at_most: Some(bytes), ..self }
    }

    /// No key with a character for which `refuses` is true; `which` names them in the error, as in "white
    /// space".
    ///
    /// ```
    /// use distlock::store::KeyRules;
    ///
    /// let rules = KeyRules::any().without(char::is_control, "control characters");
    /// # drop(rules);
    /// ```
    #[must_use]
    pub fn without(self, refuses: fn(char) -> bool, which: &'static str) -> Self {
        KeyRules { refuses: Some((refuses, which)), ..self }
    }

    /// What is wrong with `key`, if something is.
    #[doc(hidden)]
    #[must_use]
    pub fn objection(&self, key: &str) -> Option<String> {
        if let Some(most) = self.at_most.filter(|most| key.len() > *most) {
            let length = key.len();
            return Some(format!(
                "the key has {length} bytes with its prefix, the store takes {most}; hash the long part of it"
            ));
        }
        let (refuses, which) = self.refuses?;
        key.contains(refuses).then(|| format!("the store takes no key with {which} in it"))
    }
}

impl fmt::Debug for KeyRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRules")
            .field("at_most", &self.at_most)
            .field("without", &self.refuses.map(|(_, which)| which))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_measured_and_read() {
        let rules = KeyRules::any().at_most(4).without(char::is_whitespace, "white space");
        assert_eq!(rules.objection("abcd"), None);
        assert!(rules.objection("abcde").is_some_and(|text| text.contains("5 bytes")));
        assert!(rules.objection("a b").is_some_and(|text| text.contains("white space")));
        assert_eq!(KeyRules::any().objection("a b"), None);
    }

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
