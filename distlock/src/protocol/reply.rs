//! What a store replies.

use super::{OpError, ServerTime};
use std::sync::Arc;
use std::time::Duration;

/// The remaining time to live of a key that another token holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remaining {
    /// The reply did not tell.
    Unknown,
    /// The key never expires: it was not set by this library, or was changed by hand.
    Forever,
    For(Duration),
}

/// What the server replied. Every variant was checked to belong to the operation's own token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The lock was free and is ours. `fence` is the first of the reserved tokens.
    Acquired {
        server_time: Option<ServerTime>,
        fence: Option<u64>,
    },
    /// The lock was already ours, and its lease lasts at least the ttl sent.
    AlreadyHeld {
        server_time: Option<ServerTime>,
        fence: Option<u64>,
    },
    /// Another token holds it. `front`: our entry is the first in the queue.
    Busy {
        server_time: Option<ServerTime>,
        holder: Arc<str>,
        remaining: Remaining,
        front: bool,
    },
    /// The key holds something that is not a lock of this kind.
    WrongKind {
        found: Arc<str>,
    },
    /// The lock was ours and is not any more. `gap`: it was left free for plain pollers; or, on one of
    /// several servers, it was handed on to a waiter.
    Released {
        gap: bool,
    },
    /// The lock was not ours, but a queue entry was; the entry was removed.
    Cancelled,
    /// Neither the lock nor a queue entry was ours.
    NotHeld,
    Renewed {
        server_time: ServerTime,
    },
    /// The highest fencing token that the server knew before; 0: none.
    Fenced {
        last: u64,
    },
    /// Nothing was done: the command ended at a key in front of this one (see [`Backend::send_acquire_all`]).
    Skipped,
}

impl Reply {
    /// True if an acquisition succeeded.
    pub(crate) fn is_acquired(&self) -> bool {
        matches!(self, Reply::Acquired { .. } | Reply::AlreadyHeld { .. })
    }

    /// The time of the reply on the server's clock, if it tells one.
    pub(crate) fn server_time(&self) -> Option<ServerTime> {
        match self {
            Reply::Acquired { server_time, .. }
            | Reply::AlreadyHeld { server_time, .. }
            | Reply::Busy { server_time, .. } => *server_time,
            Reply::Renewed { server_time } => Some(*server_time),
            _ => None,
        }
    }

    /// True if the lock is held and the reply does not tell by which token.
    #[cfg(feature = "redis")]
    pub(crate) fn names_a_marker(&self) -> bool {
        matches!(self, Reply::Busy { holder, .. } if super::kind_of(holder) != super::Kind::Exclusive)
    }
}

pub(crate) type OpResult = Result<Reply, OpError>;
