//! Pages of a store's locks, for operators.

use std::sync::Arc;

use super::{StoredLock, Who};

/// Locks, by their keys without the prefix. In each the holder comes first whose lease lasts longest.
pub(crate) type StoredLocks = Vec<(Arc<str>, StoredLock)>;

/// Some of the locks that a store keeps: more than a [`StoredPage`](distlock_store::StoredPage), because a Redis server
/// lists keys alone, knows its clients, and may be one of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListPage {
    pub(crate) locks: StoredLocks,
    /// Further keys that may be those of locks, in order, where the store lists keys alone: to be inspected.
    pub(crate) keys: Vec<Arc<str>>,
    /// The clients that are there, whether or not they hold a lock, on the first page of a store that knows them.
    pub(crate) clients: Vec<(Arc<str>, Who)>,
    /// Servers of the store that could not be looked through.
    pub(crate) unread: Vec<String>,
    /// The next page begins after this key. `None`: this page is the last one.
    pub(crate) next: Option<Arc<str>>,
}
