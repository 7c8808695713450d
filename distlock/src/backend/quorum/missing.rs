//! The servers that lack a held lock.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::Token;
use super::servers::Servers;
use crate::protocol::Time;

/// The times of repairs, with their tokens.
pub(super) type Repairs = BTreeSet<(Time, Token)>;

/// The servers that lack a held lock.
#[derive(Debug, Default)]
pub(super) struct Missing {
    pub(super) at: Servers,
    /// The servers that were asked for the lock and have not replied.
    pub(super) asked: Servers,
    pub(super) due: Option<Time>,
    pub(super) pause: Duration,
}

impl Missing {
    pub(super) fn has(&self, node: usize) -> bool {
        self.at.has(node)
    }

    pub(super) fn add(&mut self, node: usize) {
        self.at.add(node);
    }
}
