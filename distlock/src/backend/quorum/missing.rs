//! The servers where a held lock is missing.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::Token;
use super::servers::Servers;
use crate::protocol::Time;

/// When to repair which token.
pub(super) type Repairs = BTreeSet<(Time, Token)>;

/// The servers where a held lock is missing.
#[derive(Debug, Default)]
pub(super) struct Missing {
    pub(super) at: Servers,
    /// Servers that were asked for it and have not replied.
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
