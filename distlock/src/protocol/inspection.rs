//! What a store knows about a key, for those who look from outside.

use super::Kind;
use std::sync::Arc;
use std::time::Duration;

/// What the server knows about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inspection {
    pub(crate) kind: Kind,
    /// Of several, the one whose lease lasts longest; the marker, if none of them is known.
    pub(crate) holder: Arc<str>,
    /// Of a shared or limited lock, with their leases, the longest first.
    pub(crate) holders: Vec<(Arc<str>, Option<Duration>)>,
    /// Of the longest lease. `None`: the key never expires.
    pub(crate) remaining: Option<Duration>,
    /// Processes queued on the server.
    pub(crate) waiters: u64,
}
