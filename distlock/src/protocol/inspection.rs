//! What a store knows about a key, for those who look from outside.

use super::{LockKind, OwnerDetails, Who};
use std::sync::Arc;
use std::time::Duration;

/// What the server knows about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inspection {
    pub(crate) kind: LockKind,
    /// If there are several, the one whose lease lasts longest; the marker, if none of them is known.
    pub(crate) holder: Arc<str>,
    /// The holders of a shared or limited lock with their leases, the longest first.
    pub(crate) holders: Vec<(Arc<str>, Option<Duration>)>,
    /// The rest of the longest lease. `None`: the key never expires.
    pub(crate) remaining: Option<Duration>,
    /// Processes queued on the server.
    pub(crate) waiters: u64,
    /// Their tokens, the next one first, as far as the server tells them.
    pub(crate) waiting: Vec<Arc<str>>,
    /// What the store knows of holders and waiters beside that, by their tokens.
    pub(crate) details: Vec<(Arc<str>, OwnerDetails)>,
    /// Clients among them that should have given a sign of life by now, where clients give signs of life.
    pub(crate) silent: Vec<Arc<str>>,
}

impl Inspection {
    /// Whether this token is the holder's, or that of one of several.
    pub(crate) fn is_held_by(&self, token: &str) -> bool {
        *self.holder == *token || self.holders.iter().any(|(holder, _)| **holder == *token)
    }
}

/// Locks, by their keys.
pub(crate) type Inspections = Vec<(Arc<str>, Inspection)>;

/// Some of the locks that a store keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListPage {
    pub(crate) locks: Inspections,
    /// Further keys that may be those of locks, in order, where the store lists keys alone: to be inspected.
    pub(crate) keys: Vec<Arc<str>>,
    /// The clients that are there, whether or not they hold a lock, on the first page of a store that knows them.
    pub(crate) clients: Vec<(Arc<str>, Who)>,
    /// Servers of the store that could not be looked through.
    pub(crate) unread: Vec<String>,
    /// Where the next page begins: behind this key. `None`: it is the last one.
    pub(crate) next: Option<Arc<str>>,
}
