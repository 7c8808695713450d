//! The requests to a store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::lock_kind::LockKind;
use crate::owner::{MARK, Token, client_of, shared_token_text};

/// The owner of a lock or of a place in the queue: one attempt of one process. It is never used for another attempt. A
/// store only needs to compare it.
///
/// Its text has the form `dl1:<client>:<number>`, with letters, digits, `.`, `_`, `-` and `:`, and at most 128 bytes.
/// Only the owner of a [`Release`] may have another form, when an operator releases the lock of a holder by force. That
/// holder may be [`KEPT`](super::KEPT), or another program.
///
/// ```
/// use distlock::store::Owner;
///
/// let owner = Owner::new("checkout-7.0a", 42);
/// assert_eq!((owner.as_str(), owner.client()), ("dl1:checkout-7.0a:42", "checkout-7.0a"));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    text: Arc<str>,
    client: usize,
}

impl Owner {
    /// The owner `number` of a client. For tests of a store.
    ///
    /// ```
    /// use distlock::store::Owner;
    ///
    /// assert_ne!(Owner::new("one", 1), Owner::new("one", 2));
    /// ```
    #[must_use]
    pub fn new(client: &str, number: u64) -> Self {
        Owner { text: format!("{MARK}{client}:{number}").into(), client: client.len() }
    }

    /// An owner with this text, which may come from another program.
    #[doc(hidden)]
    #[must_use]
    pub fn of_text(text: &Arc<str>) -> Self {
        Owner { text: text.clone(), client: client_of(text).map_or(0, str::len) }
    }

    #[doc(hidden)]
    #[doc(hidden)]
    #[must_use]
    pub fn of(client: &str, token: Token) -> Self {
        Owner { text: shared_token_text(client, token), client: client.len() }
    }

    /// The text to write into the store, and to compare.
    ///
    /// ```
    /// assert_eq!(distlock::store::Owner::new("one", 1).as_str(), "dl1:one:1");
    /// ```
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The client id of its process. In that process, [`StoreEvents::client`](super::StoreEvents::client) returns it.
    ///
    /// ```
    /// assert_eq!(distlock::store::Owner::new("one", 1).client(), "one");
    /// ```
    #[must_use]
    pub fn client(&self) -> &str {
        self.text.get(MARK.len()..MARK.len() + self.client).unwrap_or_default()
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The argument of [`LockStore::acquire`](super::LockStore::acquire).
///
/// ```
/// use std::time::Duration;
/// use distlock::store::{Acquire, Owner};
///
/// let owner = Owner::new("one", 1);
/// let mut request = Acquire::new("order:42", &owner, Duration::from_secs(10));
/// request.fences = 1;
/// assert!(request.queue.is_none());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Acquire {
    /// The key, with the manager's prefix.
    pub key: Arc<str>,
    /// The owner of the request.
    pub owner: Owner,
    /// The length of the lease, in multiples of the store's granularity, at least one. No effect if leases live as long
    /// as a session.
    pub ttl: Duration,
    /// The kind of lock: one that the store keeps.
    pub kind: LockKind,
    /// How many fencing tokens to reserve. Zero: the lock is not fenced.
    pub fences: u32,
    /// The place in the queue if another holder excludes the owner. `None`: the owner does not queue.
    pub queue: Option<Queue>,
}

/// A place in the store's queue. An owner has at most one place. When it asks again, it keeps its place, with the
/// claim, the lifetime and the number of fencing tokens of the new request.
///
/// If the key is free while others wait, the store decides whether an owner that asks gets it before them. This only
/// affects fairness.
///
/// ```
/// use std::time::Duration;
/// use distlock::store::Queue;
///
/// let queue = Queue::new(Duration::from_secs(3), Duration::from_secs(6));
/// assert_eq!(queue.claim, Duration::from_secs(3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Queue {
    /// The length of a lease that the store grants to this place. The owner then asks again, which extends the lease to
    /// its ttl. No effect if leases live as long as a session.
    pub claim: Duration,
    /// The lifetime of the place if its owner does not ask again. It asks about every two seconds.
    pub entry_ttl: Duration,
}

impl Acquire {
    /// An exclusive, unfenced lock, without a place in the queue. For tests of a store. Change the fields for more.
    ///
    /// ```
    /// use std::time::Duration;
    /// use distlock::store::{Acquire, Owner};
    ///
    /// let request = Acquire::new("order:42", &Owner::new("one", 1), Duration::from_secs(10));
    /// assert_eq!((request.fences, request.queue), (0, None));
    /// ```
    #[must_use]
    pub fn new(key: impl Into<Arc<str>>, owner: &Owner, ttl: Duration) -> Self {
        let kind = LockKind::Exclusive;
        Acquire { key: key.into(), owner: owner.clone(), ttl, kind, fences: 0, queue: None }
    }
}

impl Queue {
    /// A place. For tests of a store.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let queue = distlock::store::Queue::new(Duration::from_secs(3), Duration::from_secs(6));
    /// assert_eq!(queue.entry_ttl, Duration::from_secs(6));
    /// ```
    #[must_use]
    pub fn new(claim: Duration, entry_ttl: Duration) -> Self {
        Queue { claim, entry_ttl }
    }
}

/// The argument of [`LockStore::renew`](super::LockStore::renew).
///
/// ```
/// use std::time::Duration;
/// use distlock::store::{Renew, Owner};
///
/// let owner = Owner::new("one", 1);
/// let request = Renew::new("order:42", &owner, Duration::from_secs(10));
/// assert_eq!(request.owner, owner);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Renew {
    /// The key, with the manager's prefix.
    pub key: Arc<str>,
    /// The owner of the lease.
    pub owner: Owner,
    /// The length of the lease from now on, at least; in multiples of the store's granularity.
    pub ttl: Duration,
    /// The kind of lock that was acquired.
    pub kind: LockKind,
}

impl Renew {
    /// For tests of a store.
    ///
    /// ```
    /// use std::time::Duration;
    /// use distlock::store::{Owner, Renew};
    ///
    /// let request = Renew::new("order:42", &Owner::new("one", 1), Duration::from_secs(10));
    /// assert_eq!(&*request.key, "order:42");
    /// ```
    #[must_use]
    pub fn new(key: impl Into<Arc<str>>, owner: &Owner, ttl: Duration) -> Self {
        Renew { key: key.into(), owner: owner.clone(), ttl, kind: LockKind::Exclusive }
    }
}

/// The argument of [`LockStore::release`](super::LockStore::release).
///
/// ```
/// use distlock::store::{Owner, Release};
///
/// let request = Release::new("order:42", &Owner::new("one", 1));
/// assert_eq!((&*request.key, request.keep), ("order:42", None));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Release {
    /// The key, with the manager's prefix.
    pub key: Arc<str>,
    /// The owner of the lease or of the place in the queue. It may belong to another process: see
    /// [`LockStore::release`](super::LockStore::release).
    pub owner: Owner,
    /// The lease ends, but [`KEPT`](super::KEPT) holds the key (for a shared or limited lock: the place) for this long.
    /// In multiples of the store's granularity.
    pub keep: Option<Duration>,
}

impl Release {
    /// For tests of a store.
    ///
    /// ```
    /// use distlock::store::{Owner, Release};
    ///
    /// let request = Release::new("order:42", &Owner::new("one", 1));
    /// assert_eq!(request.keep, None);
    /// ```
    #[must_use]
    pub fn new(key: impl Into<Arc<str>>, owner: &Owner) -> Self {
        Release { key: key.into(), owner: owner.clone(), keep: None }
    }
}

/// The argument of [`LockStore::replace`](super::LockStore::replace).
///
/// ```
/// use std::time::Duration;
/// use distlock::store::{Owner, Replace};
///
/// let (first, next) = (Owner::new("web-1.0a", 7), Owner::new("worker-3.0c", 1));
/// let request = Replace::new("order:42", &first, &next, Duration::from_secs(10));
/// assert_eq!((request.holder, request.owner), (first, next));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Replace {
    /// The key, with the manager's prefix.
    pub key: Arc<str>,
    /// The holder to replace: an owner of any process.
    pub holder: Owner,
    /// The owner on whose behalf the manager asks.
    pub owner: Owner,
    /// How long the new owner's lease lasts, as in [`Acquire`].
    pub ttl: Duration,
    /// How many fencing tokens to reserve. Zero: the lock is not fenced.
    pub fences: u32,
}

impl Replace {
    /// A request for an unfenced lock, for tests of a store. Change the fields for more.
    ///
    /// ```
    /// use std::time::Duration;
    /// use distlock::store::{Owner, Replace};
    ///
    /// let (first, next) = (Owner::new("web-1.0a", 7), Owner::new("worker-3.0c", 1));
    /// assert_eq!(Replace::new("order:42", &first, &next, Duration::from_secs(10)).fences, 0);
    /// ```
    #[must_use]
    pub fn new(key: impl Into<Arc<str>>, holder: &Owner, owner: &Owner, ttl: Duration) -> Self {
        Replace { key: key.into(), holder: holder.clone(), owner: owner.clone(), ttl, fences: 0 }
    }
}

/// The argument of [`LockStore::publish`](super::LockStore::publish).
///
/// ```
/// use distlock::store::{Owner, Publish};
///
/// let request = Publish::new("scheduler", &Owner::new("web-1.0a", 7), "10.0.0.7:8080");
/// assert_eq!(&*request.value, "10.0.0.7:8080");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Publish {
    /// The key, with the manager's prefix.
    pub key: Arc<str>,
    /// The holder.
    pub owner: Owner,
    /// Any text of at most [`LONGEST_VALUE`](super::LONGEST_VALUE) bytes.
    pub value: Arc<str>,
}

impl Publish {
    /// For tests of a store.
    ///
    /// ```
    /// use distlock::store::{Owner, Publish};
    ///
    /// let request = Publish::new("scheduler", &Owner::new("web-1.0a", 7), "10.0.0.7:8080");
    /// # drop(request);
    /// ```
    #[must_use]
    pub fn new(key: impl Into<Arc<str>>, owner: &Owner, value: impl Into<Arc<str>>) -> Self {
        Publish { key: key.into(), owner: owner.clone(), value: value.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_names_its_client() {
        let owner = Owner::new("checkout-7.0a", 42);
        assert_eq!(owner.as_str(), "dl1:checkout-7.0a:42");
        assert_eq!(owner.client(), "checkout-7.0a");
        assert_ne!(owner, Owner::new("checkout-7.0a", 43));
        assert_eq!(Owner::of_text(&"dl1:checkout-7.0a:42".into()), owner);
        for text in ["dl1:hold", "somebody", "dl1:", ""] {
            let owner = Owner::of_text(&text.into());
            assert_eq!((owner.as_str(), owner.client()), (text, ""));
        }
    }
}
