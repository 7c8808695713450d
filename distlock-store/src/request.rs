//! What a store is asked for.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::lock_kind::LockKind;
use crate::owner::{MARK, Token, client_of, shared_token_text};

/// Who holds a lock or waits for it: one attempt of one process. Never used again for another attempt, so a store
/// may compare it and do nothing else with it.
///
/// Its text reads `dl1:<client>:<number>`, in letters, digits, `.`, `_`, `-` and `:`, at most 128 bytes. Only the owner
/// of a [`Release`] may be called otherwise: an operator takes the lock from a holder that was seen, which may be
/// [`KEPT`](super::KEPT), or of another program.
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
    /// The owner `number` of a client. For tests of a store by itself.
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

    /// With this text, which may be that of another program.
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

    /// What to write into the store, and to compare.
    ///
    /// ```
    /// assert_eq!(distlock::store::Owner::new("one", 1).as_str(), "dl1:one:1");
    /// ```
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The process that it belongs to; what
    /// [`StoreEvents::client`](super::StoreEvents::client) says there.
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

/// What [`LockStore::acquire`](super::LockStore::acquire) is asked for.
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
    /// On whose behalf.
    pub owner: Owner,
    /// How long the lease lasts, in multiples of the store's granularity, at least one. Without meaning where
    /// leases live as long as a session.
    pub ttl: Duration,
    /// What kind of lock: one of those that the store keeps.
    pub kind: LockKind,
    /// How many fencing tokens to reserve. Zero: the lock is not fenced.
    pub fences: u32,
    /// What to do if somebody else is in the way. `None`: nothing.
    pub queue: Option<Queue>,
}

/// A place in the store's queue. An owner has one at most: when it asks again it keeps the place that it has, with the
/// claim, the life and the number of fencing tokens that it asks for now.
///
/// Whether an owner that asks while others wait is let in past them when the key is free is up to the store: it decides
/// how fair the lock is, and nothing else.
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
    /// How long a lease lasts that the store grants to this place; its owner then asks again, which makes
    /// the lease as long as its ttl. Without meaning where leases live as long as a session.
    pub claim: Duration,
    /// How long the place lives if its owner does not ask again. It asks every two seconds or so.
    pub entry_ttl: Duration,
}

impl Acquire {
    /// An exclusive, unfenced lock, without a place in the queue. For tests of a store by itself; change the
    /// fields for more.
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
    /// A place. For tests of a store by itself.
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

/// What [`LockStore::renew`](super::LockStore::renew) is asked for.
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
    /// Whose lease.
    pub owner: Owner,
    /// How long the lease is to last from now, at least; in multiples of the store's granularity.
    pub ttl: Duration,
    /// What kind of lock it was acquired as.
    pub kind: LockKind,
}

impl Renew {
    /// For tests of a store by itself.
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

/// What [`LockStore::release`](super::LockStore::release) is asked for.
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
    /// Whose lease, or whose place in the queue. Not always one of this process: see
    /// [`LockStore::release`](super::LockStore::release).
    pub owner: Owner,
    /// The lease is over, but the key (of a shared or limited lock: the place) is to stay taken so much longer,
    /// by [`KEPT`](super::KEPT). In multiples of the store's granularity.
    pub keep: Option<Duration>,
}

impl Release {
    /// For tests of a store by itself.
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

/// What [`LockStore::replace`](super::LockStore::replace) is asked for.
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
    /// Who is to be replaced: an owner of any process.
    pub holder: Owner,
    /// On whose behalf.
    pub owner: Owner,
    /// How long the new owner's lease lasts, as in [`Acquire`].
    pub ttl: Duration,
    /// How many fencing tokens to reserve. Zero: the lock is not fenced.
    pub fences: u32,
}

impl Replace {
    /// Of an unfenced lock. For tests of a store by itself; change the fields for more.
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

/// What [`LockStore::publish`](super::LockStore::publish) is asked for.
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
    /// Who holds it.
    pub owner: Owner,
    /// Any text of at most [`LONGEST_VALUE`](super::LONGEST_VALUE) bytes.
    pub value: Arc<str>,
}

impl Publish {
    /// For tests of a store by itself.
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
