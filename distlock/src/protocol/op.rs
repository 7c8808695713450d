//! The operations of a store: one type for each operation, and one for its replies (see
//! [`AcquireReply`](super::AcquireReply) and the types next to it). Durations are whole milliseconds, at least one.

use super::{LockKind, ServerTime, Token};
use std::sync::Arc;
use std::time::Duration;

/// What an acquire command does if another token holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcquireMode {
    /// The command only tries.
    Try,
    /// It queues. The grant is pushed.
    Wait,
    /// It queues. No connection listens for pushes; the waiter asks again by timer.
    Poll,
    /// Like [`AcquireMode::Wait`], and the token may already be queued.
    WaitAgain,
    /// Like [`AcquireMode::Poll`], and the token may already be queued.
    PollAgain,
}

/// Acquires an exclusive lock if it is free and does nothing else: the cheapest command. A backend may carry
/// it out as [`Acquire`] with [`AcquireMode::Try`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TryAcquire {
    pub(crate) token: Token,
    pub(crate) ttl: Duration,
}

/// Acquires, queues, refreshes the queue entry, or claims a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acquire {
    pub(crate) token: Token,
    pub(crate) kind: LockKind,
    pub(crate) ttl: Duration,
    /// How long a grant to this entry lives without confirmation.
    pub(crate) claim: Duration,
    pub(crate) mode: AcquireMode,
    /// How many fencing tokens to reserve (0: unfenced).
    pub(crate) fences: u32,
}

/// A command that asks for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Plain(TryAcquire),
    Full(Acquire),
}

impl Ask {
    pub(crate) fn token(&self) -> Token {
        match self {
            Ask::Plain(op) => op.token,
            Ask::Full(op) => op.token,
        }
    }

    pub(crate) fn ttl(&self) -> Duration {
        match self {
            Ask::Plain(op) => op.ttl,
            Ask::Full(op) => op.ttl,
        }
    }

    /// Whether a server that is busy queues the token.
    pub(crate) fn queues(&self) -> bool {
        matches!(self, Ask::Full(Acquire { mode, .. }) if *mode != AcquireMode::Try)
    }
}

impl From<TryAcquire> for Ask {
    fn from(op: TryAcquire) -> Self {
        Ask::Plain(op)
    }
}

impl From<Acquire> for Ask {
    fn from(op: Acquire) -> Self {
        Ask::Full(op)
    }
}

/// Acquires an exclusive lock that `holder`, the owner token of any client, holds: the lock is never free in between,
/// and its queue stays as it is. Does nothing if another owner holds it, or if it is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replace {
    pub(crate) token: Token,
    pub(crate) ttl: Duration,
    /// How many fencing tokens to reserve (0: unfenced).
    pub(crate) fences: u32,
    pub(crate) holder: Arc<str>,
}

/// Releases the lock and hands it on, or leaves the queue, or undoes the effect that an earlier command of this token
/// may have had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) token: Token,
    /// The key stays taken (by no token) for that much longer.
    pub(crate) keep_taken_for: Option<Duration>,
    /// When the current run of hand-offs began, if that is known.
    pub(crate) handoffs_began: Option<ServerTime>,
    pub(crate) ends: Ends,
}

impl Release {
    /// One that leaves nothing behind.
    pub(crate) fn new(token: Token, ends: Ends) -> Release {
        Release { token, keep_taken_for: None, handoffs_began: None, ends }
    }
}

/// The state that a release ends, as far as this process knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// A lease that excludes all others.
    ExclusiveLease,
    /// One of several leases, or an attempt, which may be in the queue, or the rest of an earlier release.
    Other,
}

/// Sets the lease to `ttl` from now unless it is longer already. Never creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Renew {
    pub(crate) token: Token,
    pub(crate) kind: LockKind,
    pub(crate) ttl: Duration,
    /// The process hands the lock over: the lease must last for this long without the process.
    pub(crate) last: bool,
}

/// Raises the server's counter of fencing tokens to the last of `count` tokens starting with `first`, if the
/// lock is ours. Used by backends of several servers to agree on tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    pub(crate) token: Token,
    pub(crate) first: u64,
    pub(crate) count: u32,
}
