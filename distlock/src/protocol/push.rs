//! What a store says without being asked.

use super::{ServerTime, Token};
use std::sync::Arc;

/// News from the server that nobody asked for. Hints: they may be late, doubled, or missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Push {
    /// At `server_time` the lock was given to `token` for its claim time. `handoffs_began`: see [`Op::Release`].
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
}

/// News that say that something may have changed, and nothing that could be relied on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The lock may be free: whoever waits for it may ask.
    Free { key: Arc<str> },
    /// The lock, or a place in the queue, was given to `token`, nobody knows when.
    Unproven { key: Arc<str>, token: Token },
}
