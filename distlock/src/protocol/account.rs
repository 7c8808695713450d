//! A client's knowledge of its own locks.

use super::{LockKind, Token};
use std::sync::Arc;
use std::time::Duration;

/// What one client knows of one lock that it holds or waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) key: Arc<str>,
    pub(crate) holds: Vec<HoldAccount>,
    pub(crate) wait: Option<WaitAccount>,
}

/// One lease. Readers of one process share one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HoldAccount {
    pub(crate) token: Token,
    pub(crate) kind: LockKind,
    pub(crate) users: u64,
    /// The label of the holder that has held it longest.
    pub(crate) label: String,
    pub(crate) since: Duration,
    pub(crate) left: Duration,
}

/// The requests that wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitAccount {
    /// The token of the attempt on the server, if there is one.
    pub(crate) token: Option<Token>,
    pub(crate) kind: LockKind,
    pub(crate) requests: u64,
    /// The label of the request that has waited longest.
    pub(crate) label: String,
    pub(crate) since: Duration,
}
