//! The replies of a store.

use std::collections::HashMap;
use std::time::Duration;

use crate::details::OwnerDetails;
use crate::limits::LONGEST_VALUE;
use crate::lock_kind::LockKind;
use crate::owner::client_of;

/// The holder's name for a key that [`Release::keep`](super::Release::keep) keeps.
///
/// ```
/// assert_eq!(distlock::store::KEPT, "dl1:hold");
/// ```
pub const KEPT: &str = "dl1:hold";

/// The result of [`LockStore::acquire`](super::LockStore::acquire).
///
/// ```
/// use distlock::store::{AcquireReply, Busy};
///
/// assert!(AcquireReply::Acquired { fence: Some(17) }.is_acquired());
/// assert!(!AcquireReply::Busy(Busy::by("dl1:checkout:7")).is_acquired());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquireReply {
    /// The owner has acquired the lock.
    Acquired {
        /// The first of the reserved fencing tokens, if the request asked for some. It is below 2^53, and above every
        /// earlier token of this key.
        fence: Option<u64>,
    },
    /// The owner already held the lock. Its lease lasts at least for the requested ttl.
    AlreadyHeld {
        /// The first of the new fencing tokens, above the tokens that the owner has already.
        fence: Option<u64>,
    },
    /// Another holder excludes the owner.
    Busy(Busy),
    /// The key is in use as a lock of a kind that is not compatible with the requested one, or with another limit.
    WrongKind {
        /// The kind of lock that the key is in use as.
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

/// The reply of [`LockStore::replace`](super::LockStore::replace).
///
/// ```
/// use distlock::store::ReplaceReply;
///
/// assert_ne!(ReplaceReply::NotHeld, ReplaceReply::Replaced { fence: None });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplaceReply {
    /// The holder had the lock, and now the owner has it.
    Replaced {
        /// As in [`AcquireReply::Acquired`].
        fence: Option<u64>,
    },
    /// The owner had the lock already, because the request was repeated. The lease lasts for at least the requested
    /// ttl.
    AlreadyHeld {
        /// As in [`AcquireReply::AlreadyHeld`].
        fence: Option<u64>,
    },
    /// Another owner holds it, or it is free. Nothing was changed.
    NotHeld,
}

/// Whether waiters are notified when a holder releases the lock.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderRelease {
    /// If the holder's text is that of a user of this library.
    JudgedByText,
    Reported,
    NotReported,
}

/// The holder that excludes the owner, and the rest of its lease.
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
    /// A user of this library holds it: the [`Owner`](super::Owner) with this text or [`KEPT`](super::KEPT), and never
    /// the owner of the request. The store notifies waiters of its release, if it has notifications, and waiters sleep
    /// until then.
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

    /// Another program holds it. Waiters are not notified when it releases the lock, so the first waiter polls.
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

    /// The owner with this text holds it, and never the owner of the request. For a store that does not know the
    /// program: the text decides whether it is [`ours`](Self::ours) (an [`Owner`](super::Owner) or
    /// [`KEPT`](super::KEPT)) or [`foreign`](Self::foreign).
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

    /// A user of this library holds it. The reply does not name it.
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

    /// [`StoreEvents`](super::StoreEvents) reports the holder's release to waiters, whatever its text is. For a store
    /// that watches its keys, and notices when any program frees them. Waiters sleep until then.
    ///
    /// If this promise is false, the first waiter asks again only with its heartbeat, about every 2 s.
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

    /// The holder's release is not reported to waiters, although its owner token has the form of this library. The
    /// first waiter polls, with pauses of up to 100 ms.
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

    /// The rest of the holder's lease, if it is not renewed. The first waiter asks again when it is over. If not set,
    /// it asks again about every two seconds.
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

    /// Others are before this owner in the queue. They check for a dead holder, so this owner need not.
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

/// The result of [`LockStore::renew`](super::LockStore::renew).
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
    /// The lease lasts at least for the requested ttl.
    Renewed,
    /// The owner does not hold the lock (or no longer holds it), so it has lost the lock.
    NotHeld,
}

/// The result of [`LockStore::release`](super::LockStore::release).
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
    /// The owner had the lock, or a place in the queue, and has it no longer.
    Released,
    /// The owner had neither the lock nor a place in the queue.
    NotHeld,
}

/// The holder if the store does not name it: a user of this library.
pub const SOMEBODY: &str = "dl1:unknown";

/// The result of [`LockStore::inspect`](super::LockStore::inspect).
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
    /// Clients among them whose heartbeat is overdue, on a store where clients send heartbeats.
    #[doc(hidden)]
    pub silent: Vec<String>,
}

impl StoredLock {
    /// A lock of this kind. Add its holders.
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

    /// Adds a holder, and the rest of its lease. `None`: the lease never ends, or ends with a session.
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

    /// The number of owners in the store's queue, if they are not named.
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

    /// Adds the next owner in the store's queue. Add them in their order. A thousand are enough.
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

    /// The text that `owner` has [published](super::LockStore::publish). It is ignored unless the owner is the holder,
    /// or if it is longer than [`LONGEST_VALUE`](super::LONGEST_VALUE). Call it after the holders were added.
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
        let value = value.into();
        if !self.is_held_by(owner) || value.len() > LONGEST_VALUE {
            return self;
        }
        let value = Some(value);
        match self.details.iter_mut().find(|(known, _)| known == owner) {
            Some((_, details)) => details.value = value,
            None => self.details.push((owner.to_owned(), OwnerDetails { value, ..OwnerDetails::default() })),
        }
        self
    }

    /// Adds details about one of the owners.
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

    /// Adds the details of each owner whose client is known.
    #[doc(hidden)]
    pub fn with_clients(self, clients: &HashMap<String, OwnerDetails>) -> Self {
        let holders = self.holders.iter().map(|(holder, _)| holder);
        let owners: Vec<String> = holders.chain(&self.waiting).cloned().collect();
        owners.into_iter().fold(self, |lock, owner| {
            match client_of(&owner).and_then(|client| clients.get(client)).cloned() {
                Some(known) => lock.details(owner, known),
                None => lock,
            }
        })
    }

    /// Sorts the holders, the longest lease first. A lease without expiry counts as the longest.
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

    /// The rest of the first holder's lease. `None`: it never ends, or ends with a session.
    #[doc(hidden)]
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.holders.first()?.1
    }

    /// Whether this owner holds it, alone or with others.
    #[doc(hidden)]
    #[must_use]
    pub fn is_held_by(&self, owner: &str) -> bool {
        self.holders.iter().any(|(holder, _)| holder == owner)
    }
}
