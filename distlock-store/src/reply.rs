//! What a store says.

use std::time::Duration;

use crate::details::OwnerDetails;
use crate::lock_kind::LockKind;

/// Who stands as the holder of a key that [`Release::keep`](super::Release::keep) keeps.
///
/// ```
/// assert_eq!(distlock::store::KEPT, "dl1:hold");
/// ```
pub const KEPT: &str = "dl1:hold";

/// What [`LockStore::acquire`](super::LockStore::acquire) found.
///
/// ```
/// use distlock::store::{AcquireReply, Busy};
///
/// assert!(AcquireReply::Acquired { fence: Some(17) }.is_acquired());
/// assert!(!AcquireReply::Busy(Busy::by("dl1:checkout:7")).is_acquired());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireReply {
    /// There was room, and the lock is the owner's now.
    Acquired {
        /// The first of the fencing tokens that were reserved, if some were asked for: below 2^53, and above
        /// every number that was ever handed out for this key.
        fence: Option<u64>,
    },
    /// The lock was the owner's already. Its lease lasts for the ttl asked for, at least.
    AlreadyHeld {
        /// As above: new numbers, above those that the owner has got before.
        fence: Option<u64>,
    },
    /// Somebody else is in the way.
    Busy(Busy),
    /// The key is in use as a lock of a kind that does not go together with the one asked for, or with another
    /// limit.
    WrongKind {
        /// What it is in use as.
        found: LockKind,
    },
}

impl AcquireReply {
    /// The owner has the lock.
    ///
    /// ```
    /// use distlock::store::AcquireReply;
    ///
    /// assert!(AcquireReply::AlreadyHeld { fence: None }.is_acquired());
    /// ```
    #[must_use]
    pub fn is_acquired(&self) -> bool {
        matches!(self, AcquireReply::Acquired { .. } | AcquireReply::AlreadyHeld { .. })
    }
}

/// What [`LockStore::replace`](super::LockStore::replace) found.
///
/// ```
/// use distlock::store::ReplaceReply;
///
/// assert_ne!(ReplaceReply::NotHeld, ReplaceReply::Replaced { fence: None });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceReply {
    /// The lock was the holder's, and is the owner's now.
    Replaced {
        /// As in [`AcquireReply::Acquired`].
        fence: Option<u64>,
    },
    /// The lock was the owner's already: the request was repeated. Its lease lasts for the ttl asked for, at least.
    AlreadyHeld {
        /// As in [`AcquireReply::AlreadyHeld`].
        fence: Option<u64>,
    },
    /// Anybody else holds it, or nobody. Nothing was changed.
    NotHeld,
}

/// Whether waiters are told when a holder releases.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderRelease {
    /// If the holder's text is that of a user of this library.
    JudgedByText,
    Reported,
    NotReported,
}

/// Who is in the way, and for how long.
///
/// ```
/// use std::time::Duration;
/// use distlock::store::{AcquireReply, Busy};
///
/// let reply = AcquireReply::Busy(Busy::by("dl1:checkout:7").remaining(Duration::from_secs(3)));
/// assert!(!reply.is_acquired());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Busy {
    #[doc(hidden)]
    pub holder: Option<String>,
    #[doc(hidden)]
    pub release: HolderRelease,
    #[doc(hidden)]
    pub remaining: Option<Duration>,
    #[doc(hidden)]
    pub front: bool,
}

impl Busy {
    /// Held by one of ours, the [`Owner`](super::Owner) with this text or [`KEPT`](super::KEPT), and never by the one
    /// who asks: the store tells waiters when it releases, if it tells them at all, and they sleep until then.
    ///
    /// ```
    /// use distlock::store::Busy;
    ///
    /// let busy = Busy::ours("dl1:checkout:7");
    /// # drop(busy);
    /// ```
    pub fn ours(holder: impl Into<String>) -> Self {
        Busy::by(holder).is_reported()
    }

    /// Held by another program, which tells nobody when it releases: the first waiter polls.
    ///
    /// ```
    /// use distlock::store::Busy;
    ///
    /// let busy = Busy::foreign("a shell script");
    /// # drop(busy);
    /// ```
    pub fn foreign(holder: impl Into<String>) -> Self {
        Busy::by(holder).is_not_reported()
    }

    /// Held by the owner with this text: never the one who asks. For a store that does not know whose it is: it is
    /// judged by the text to be [`ours`](Self::ours) (an [`Owner`](super::Owner)'s or [`KEPT`](super::KEPT)) or
    /// [`foreign`](Self::foreign).
    ///
    /// ```
    /// use distlock::store::Busy;
    ///
    /// let busy = Busy::by("dl1:checkout:7");
    /// # drop(busy);
    /// ```
    pub fn by(holder: impl Into<String>) -> Self {
        Busy {
            holder: Some(holder.into()),
            release: HolderRelease::JudgedByText,
            remaining: None,
            front: true,
        }
    }

    /// Held by one of ours; the reply does not say by whom.
    ///
    /// ```
    /// use distlock::store::Busy;
    ///
    /// let busy = Busy::by_somebody();
    /// # drop(busy);
    /// ```
    pub fn by_somebody() -> Self {
        Busy { holder: None, release: HolderRelease::Reported, remaining: None, front: true }
    }

    /// The holder's release is reported to waiters by [`StoreEvents`](super::StoreEvents), whatever its text is:
    /// for a store that watches its keys, and sees programs of any kind free them. Waiters sleep until then.
    ///
    /// If it is not true, the first waiter asks again only after its heartbeat, every 2 s or so.
    ///
    /// ```
    /// use distlock::store::Busy;
    ///
    /// let busy = Busy::by("a shell script").is_reported();
    /// # drop(busy);
    /// ```
    pub fn is_reported(self) -> Self {
        Busy { release: HolderRelease::Reported, ..self }
    }

    /// The holder's release is not reported to waiters, although its text is that of one of ours: the first
    /// waiter polls, at most every 100 ms in the end.
    ///
    /// ```
    /// use distlock::store::Busy;
    ///
    /// let busy = Busy::by("dl1:checkout:7").is_not_reported();
    /// # drop(busy);
    /// ```
    pub fn is_not_reported(self) -> Self {
        Busy { release: HolderRelease::NotReported, ..self }
    }

    /// How long the lease lasts that is in the way, if it is not renewed. The first waiter asks again when it is
    /// over. Not said: it asks again every two seconds or so.
    ///
    /// ```
    /// use distlock::store::Busy;
    ///
    /// let busy = Busy::by("dl1:checkout:7").remaining(std::time::Duration::from_secs(3));
    /// # drop(busy);
    /// ```
    pub fn remaining(self, remaining: Duration) -> Self {
        Busy { remaining: Some(remaining), ..self }
    }

    /// Others stand before this owner in the queue: they are the ones who look after a holder that has died.
    ///
    /// ```
    /// use distlock::store::Busy;
    ///
    /// let busy = Busy::by("dl1:checkout:7").behind_others();
    /// # drop(busy);
    /// ```
    pub fn behind_others(self) -> Self {
        Busy { front: false, ..self }
    }
}

/// What [`LockStore::renew`](super::LockStore::renew) found.
///
/// ```
/// use distlock::store::RenewReply;
///
/// /// From the number of rows that `UPDATE … WHERE key = $1 AND owner = $2` has changed.
/// fn reply(rows: u64) -> RenewReply {
///     if rows == 1 { RenewReply::Renewed } else { RenewReply::NotHeld }
/// }
/// assert_eq!(reply(0), RenewReply::NotHeld);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenewReply {
    /// The lease lasts for the ttl asked for, at least.
    Renewed,
    /// The lock is not the owner's (any more). Its holder is told that it is lost.
    NotHeld,
}

/// What [`LockStore::release`](super::LockStore::release) found.
///
/// ```
/// use distlock::store::ReleaseReply;
///
/// /// From the number of rows that `DELETE … WHERE key = $1 AND owner = $2` has removed.
/// fn reply(rows: u64) -> ReleaseReply {
///     if rows == 1 { ReleaseReply::Released } else { ReleaseReply::NotHeld }
/// }
/// assert_eq!(reply(1), ReleaseReply::Released);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReply {
    /// The lock, or the place in the queue, was the owner's and is not any more.
    Released,
    /// Neither of them was the owner's.
    NotHeld,
}

/// Who holds a lock if the store does not say: one of ours.
pub const SOMEBODY: &str = "dl1:unknown";

/// What [`LockStore::inspect`](super::LockStore::inspect) found.
///
/// ```
/// use std::time::Duration;
/// use distlock::LockKind;
/// use distlock::store::StoredLock;
///
/// let lock = StoredLock::new(LockKind::Exclusive)
///     .holder("dl1:checkout:7", Some(Duration::from_secs(9)))
///     .waiter("dl1:refund:2");
/// # drop(lock);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct StoredLock {
    #[doc(hidden)]
    pub kind: LockKind,
    #[doc(hidden)]
    pub holders: Vec<(String, Option<Duration>)>,
    #[doc(hidden)]
    pub waiters: u64,
    #[doc(hidden)]
    pub waiting: Vec<String>,
    #[doc(hidden)]
    pub details: Vec<(String, OwnerDetails)>,
    /// Clients among them that should have given a sign of life by now, where clients give signs of life.
    #[doc(hidden)]
    pub silent: Vec<String>,
}

impl StoredLock {
    /// A lock of this kind. Name its holders.
    ///
    /// ```
    /// use distlock::LockKind;
    /// use distlock::store::StoredLock;
    ///
    /// let lock = StoredLock::new(LockKind::Exclusive);
    /// # drop(lock);
    /// ```
    pub fn new(kind: LockKind) -> Self {
        let (holders, waiting, details, silent) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        StoredLock { kind, holders, waiters: 0, waiting, details, silent }
    }

    /// One of those who hold it, and how long its lease lasts. `None`: it never ends, or with a session.
    ///
    /// ```
    /// use distlock::LockKind;
    /// use distlock::store::StoredLock;
    ///
    /// let lock = StoredLock::new(LockKind::Exclusive).holder("dl1:checkout:7", None);
    /// # drop(lock);
    /// ```
    pub fn holder(mut self, holder: impl Into<String>, remaining: Option<Duration>) -> Self {
        self.holders.push((holder.into(), remaining));
        self
    }

    /// How many owners stand in the store's queue, if they are not named.
    ///
    /// ```
    /// use distlock::LockKind;
    /// use distlock::store::StoredLock;
    ///
    /// let lock = StoredLock::new(LockKind::Exclusive).holder("dl1:checkout:7", None).waiters(3);
    /// # drop(lock);
    /// ```
    pub fn waiters(self, waiters: u64) -> Self {
        StoredLock { waiters, ..self }
    }

    /// The next one in the store's queue: name them in their order. A thousand are enough.
    ///
    /// ```
    /// use distlock::LockKind;
    /// use distlock::store::StoredLock;
    ///
    /// let lock = StoredLock::new(LockKind::Exclusive).holder("dl1:checkout:7", None).waiter("dl1:refund:2");
    /// # drop(lock);
    /// ```
    pub fn waiter(mut self, waiter: impl Into<String>) -> Self {
        self.waiting.push(waiter.into());
        let named = u64::try_from(self.waiting.len()).unwrap_or(u64::MAX);
        StoredLock { waiters: self.waiters.max(named), ..self }
    }

    /// What `owner` has [published](super::LockStore::publish): ignored unless it is the holder. To be said after the
    /// holders.
    ///
    /// ```
    /// use distlock::LockKind;
    /// use distlock::store::StoredLock;
    ///
    /// let lock = StoredLock::new(LockKind::Exclusive).holder("dl1:web.0a:7", None);
    /// let lock = lock.published("dl1:web.0a:7", "10.0.0.7:8080");
    /// # drop(lock);
    /// ```
    pub fn published(mut self, owner: &str, value: impl Into<String>) -> Self {
        if !self.holders.iter().any(|(holder, _)| holder == owner) {
            return self;
        }
        let value = Some(value.into());
        match self.details.iter_mut().find(|(known, _)| known == owner) {
            Some((_, details)) => details.value = value,
            None => self.details.push((owner.to_owned(), OwnerDetails { value, ..OwnerDetails::default() })),
        }
        self
    }

    /// What the store knows of one of them.
    ///
    /// ```
    /// use distlock::LockKind;
    /// use distlock::store::{OwnerDetails, StoredLock};
    ///
    /// let lock = StoredLock::new(LockKind::Exclusive)
    ///     .holder("dl1:checkout:7", None)
    ///     .details("dl1:checkout:7", OwnerDetails::default().host("web-1").pid(4711));
    /// # drop(lock);
    /// ```
    pub fn details(mut self, owner: impl Into<String>, details: OwnerDetails) -> Self {
        self.details.push((owner.into(), details));
        self
    }

    /// With the holder first whose lease lasts longest. Those without an end last longest.
    #[doc(hidden)]
    pub fn longest_first(mut self) -> Self {
        self.holders.sort_by_key(|(_, remaining)| std::cmp::Reverse(remaining.unwrap_or(Duration::MAX)));
        self
    }

    /// The first holder.
    #[doc(hidden)]
    #[must_use]
    pub fn first_holder(&self) -> &str {
        self.holders.first().map_or(SOMEBODY, |(holder, _)| holder)
    }

    /// The rest of the first holder's lease. `None`: it never ends, or with a session.
    #[doc(hidden)]
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.holders.first()?.1
    }

    /// Whether this is the owner who holds it, or one of several.
    #[doc(hidden)]
    #[must_use]
    pub fn is_held_by(&self, owner: &str) -> bool {
        self.holders.iter().any(|(holder, _)| holder == owner)
    }
}
