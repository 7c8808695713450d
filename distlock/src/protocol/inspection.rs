//! What a store knows about a key, for observers.

use super::Kind;
use std::sync::Arc;
use std::time::Duration;

/// What the server knows about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inspection {
    pub(crate) kind: Kind,
    /// If there are several, the one whose lease lasts longest; the marker, if none of them is known.
    pub(crate) holder: Arc<str>,
    /// The holders of a shared or limited lock with their leases, the longest first.
    pub(crate) holders: Vec<(Arc<str>, Option<Duration>)>,
    /// The rest of the longest lease. `None`: the key never expires.
    pub(crate) remaining: Option<Duration>,
    /// Processes queued on the server.
    pub(crate) waiters: u64,
}
