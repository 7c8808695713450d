//! Messages that a store pushes.

use super::{ServerTime, Token};
use std::sync::Arc;

/// A push from the server. It is only a hint: it may come late, twice, or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Push {
    /// At `server_time` the lock was granted to `token` for its claim. `handoffs_began`: see
    /// [`op::Release`](super::op::Release).
    Grant {
        key: Arc<str>,
        token: Token,
        server_time: ServerTime,
        handoffs_began: ServerTime,
        fence: Option<u64>,
    },
    /// The lock is left free for plain pollers; `token` is still first in the queue and may ask again after
    /// the gap.
    Gap { key: Arc<str>, token: Token },
    /// Another client wants the lock that `token` holds, which may linger.
    Wanted { key: Arc<str>, token: Token },
}

impl Push {
    pub(crate) fn key(&self) -> &Arc<str> {
        match self {
            Push::Grant { key, .. } | Push::Gap { key, .. } | Push::Wanted { key, .. } => key,
        }
    }
}

/// News that something may have changed. Nothing in it can be relied on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PushHint {
    /// The lock may be free: its waiters may ask.
    Free { key: Arc<str> },
    /// The lock, or a place in the queue, was given to `token` at an unknown time.
    Unproven { key: Arc<str>, token: Token },
}

impl PushHint {
    pub(crate) fn key(&self) -> &Arc<str> {
        match self {
            PushHint::Free { key } | PushHint::Unproven { key, .. } => key,
        }
    }
}
