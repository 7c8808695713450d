//! Requests for locks, and how they end.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::collection::KeyCollection;
use crate::lease_cell::LeaseCell;
use crate::protocol::{Kind, OpError, Time};

/// Whether a request keeps its lease alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    Keep,
    Never,
}

/// How long a request waits for a lock that is held by somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitLimit {
    /// Not at all: one attempt.
    Once,
    Until(Time),
    Forever,
}

/// A request for a lock, validated: `ttl` is at least 10 ms and whole milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Want {
    pub(crate) kind: Kind,
    pub(crate) ttl: Duration,
    pub(crate) renewal: Renewal,
    pub(crate) wait_limit: WaitLimit,
    /// How long the server may be out of reach before the request fails.
    pub(crate) unavailable_after: Duration,
    pub(crate) fenced: bool,
    /// So many may wait for the key in this process; whoever comes then is told that it is busy.
    pub(crate) max_waiters: Option<u32>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
    /// One of several keys: `renewal`, `max_hold` and `min_hold` are those of
    /// [`Machine::begin`](super::Machine::begin), later.
    pub(crate) collection: Option<Arc<KeyCollection>>,
    pub(crate) label: Cow<'static, str>,
}

/// Where a key stands in a command for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InBatch {
    First,
    Behind,
}

/// How a request ended.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    Acquired(Arc<LeaseCell>),
    Busy {
        holder: Option<Arc<str>>,
        waited: Duration,
    },
    Unavailable(OpError),
    WrongKind {
        found: Arc<str>,
    },
    Closed,
    /// Of several keys: not decided, because one before this was not acquired by the same command. Nothing of
    /// it is left.
    Skipped,
}
