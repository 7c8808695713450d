//! A manager whose store is open.

use std::time::Duration;

use super::LockManager;

/// How long `connect` retries, unless one attempt may take longer.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// A manager that has not connected yet.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) manager: LockManager,
    /// How long one attempt to connect may take.
    pub(super) longest_attempt: Duration,
}

impl Built {
    /// For a store that needs no connection, or has its own time limit.
    pub(super) fn at_once(manager: LockManager) -> Built {
        Built { manager, longest_attempt: Duration::ZERO }
    }

    pub(super) fn connects_within(&self) -> Duration {
        CONNECT_WITHIN.max(self.longest_attempt)
    }
}
