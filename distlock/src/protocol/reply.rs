//! What a store says.

use super::{OpError, ServerTime};
use std::sync::Arc;
use std::time::Duration;

/// The time to live of a key that somebody else holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remaining {
    /// The reply did not say.
    Unknown,
    /// The key never expires: not one of ours, or somebody's mistake.
    Forever,
    For(Duration),
}

/// What the server said. Every variant has been checked to belong to the operation's own token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The lock was free and is ours. `fence` is the first of the reserved tokens.
    Acquired {
        server_time: Option<ServerTime>,
        fence: Option<u64>,
    },
    /// The lock was ours already, and its lease is at least the ttl sent.
    AlreadyHeld {
        server_time: Option<ServerTime>,
        fence: Option<u64>,
    },
    /// Somebody else holds it. `front`: our entry is the first in the queue.
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
    /// The lock was ours and is not any more. `gap`: it was left free for plain pollers; or, on one of several
    /// servers, it was handed on to a waiter.
    Released {
        gap: bool,
    },
    /// The lock was not ours, but the queue entry was; it is gone.
    Cancelled,
    /// Neither the lock nor a queue entry was ours.
    NotHeld,
    Renewed {
        server_time: ServerTime,
    },
    /// The highest fencing token that the server knew of before; 0: of none.
    Fenced {
        last: u64,
    },
    /// Nothing was done: the command ended at a key before this one (see [`Backend::send_acquire_all`]).
    Skipped,
}

impl Reply {
    /// An operation that wanted the lock has it.
    pub(crate) fn is_acquired(&self) -> bool {
        matches!(self, Reply::Acquired { .. } | Reply::AlreadyHeld { .. })
    }

    /// When the server said so, on its own clock.
    pub(crate) fn server_time(&self) -> Option<ServerTime> {
        match self {
            Reply::Acquired { server_time, .. }
            | Reply::AlreadyHeld { server_time, .. }
            | Reply::Busy { server_time, .. } => *server_time,
            Reply::Renewed { server_time } => Some(*server_time),
            _ => None,
        }
    }

    /// Somebody holds the lock, and the reply does not say who.
    #[cfg(feature = "redis")]
    pub(crate) fn names_a_marker(&self) -> bool {
        matches!(self, Reply::Busy { holder, .. } if super::kind_of(holder) != super::Kind::Exclusive)
    }
}

pub(crate) type OpResult = Result<Reply, OpError>;
