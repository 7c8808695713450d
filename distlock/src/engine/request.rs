//! Requests for locks, and how they end.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::collection::KeyCollection;
use crate::deadlock::Deadlock;
use crate::lease_cell::LeaseCell;
use crate::protocol::{LockKind, StoreError, Time};

/// Whether the lease of a request is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    Keep,
    Never,
}

/// How long a request waits for a lock that another holder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitLimit {
    /// It does not wait: one attempt.
    Once,
    Until(Time),
    Forever,
}

/// A validated request for a lock: `ttl` is at least 10 ms and a whole number of milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) kind: LockKind,
    pub(crate) ttl: Duration,
    pub(crate) renewal: Renewal,
    pub(crate) wait_limit: WaitLimit,
    /// How long the server may be unreachable before the request fails.
    pub(crate) unavailable_after: Duration,
    pub(crate) fenced: bool,
    /// The most waiters for the key in this process. A request that finds that many fails as busy.
    pub(crate) max_waiters: Option<u32>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
    /// How long the lease may stay with this process after its last section; only of an exclusive lock.
    pub(crate) linger: Option<Duration>,
    /// The holder, of any process, from which the lock is taken over. Such a request asks the store, waits in no queue,
    /// and is never served by a lease or an attempt of this process.
    pub(crate) replaces: Option<Arc<str>>,
    /// It is never served by a lease that another holder of this process had: the token is its own. It is exclusive.
    pub(crate) own_lease: bool,
    /// Set if this is one of several keys. `renewal`, `max_hold` and `min_hold` then come later, with
    /// [`Step::begin_hold`](super::Step::begin_hold).
    pub(crate) collection: Option<Arc<KeyCollection>>,
    pub(crate) label: Cow<'static, str>,
}

/// The holder of a lock that a request did not get.
#[derive(Clone, Debug)]
pub(crate) struct KnownHolder {
    pub(crate) text: Arc<str>,
    /// When its lease ends, if it is not renewed; `None`: not known, or never.
    pub(crate) until: Option<Time>,
}

/// How a request ended.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Acquired(Arc<LeaseCell>),
    Busy {
        holder: Option<KnownHolder>,
        waited: Duration,
    },
    Unavailable(StoreError),
    /// The same, but the server may have executed a command of the request, which replaces a holder.
    Unconfirmed(StoreError),
    WrongKind {
        found: Arc<str>,
    },
    Closed,
    /// The holder that was to be replaced does not hold the lock.
    NotReplaced,
    /// It was the youngest request of a deadlock. Only the driver ends a request in this way.
    Deadlock(Arc<Deadlock>),
    /// Only for several keys: not decided, because the same command did not acquire a key in front of this
    /// one. Nothing of the request is left on the server.
    Skipped,
}
