//! What a store can be asked to do.

use super::{Kind, ServerTime, Token};
use std::time::Duration;

/// What an acquire command does if another token holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcquireMode {
    /// Nothing: it only tries.
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

/// One operation on one key. Durations are whole milliseconds, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Acquires the lock if it is free and does nothing else: the cheapest command. A backend may carry it
    /// out as `Acquire` with [`AcquireMode::Try`]. Replies: `Acquired`, `AlreadyHeld`, `Busy`, `WrongKind`.
    TryAcquire { token: Token, ttl: Duration },
    /// Acquires, queues, refreshes the queue entry, or claims a grant. `claim` is how long a grant to this
    /// entry lives without confirmation, `fences` how many fencing tokens to reserve (0: unfenced). Replies
    /// as for `TryAcquire`.
    Acquire { token: Token, kind: Kind, ttl: Duration, claim: Duration, mode: AcquireMode, fences: u32 },
    /// Releases and hands on; or leaves the queue; or undoes whatever an earlier command of this token may
    /// have done. With `keep_taken_for` the key stays taken (by no token) for that much longer.
    /// `handoffs_began` is when the current run of hand-offs began; 0 if unknown. Replies: `Released`,
    /// `Cancelled`, `NotHeld`.
    Release { token: Token, keep_taken_for: Option<Duration>, handoffs_began: ServerTime },
    /// Sets the lease to `ttl` from now unless it is longer already. Never creates. Replies: `Renewed`,
    /// `NotHeld`.
    Renew { token: Token, kind: Kind, ttl: Duration },
    /// Raises the server's counter of fencing tokens to the last of `count` tokens starting with `first`, if
    /// the lock is ours. Used by backends of several servers to agree on tokens. Replies: `Fenced`,
    /// `NotHeld`.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "memory is one server"))]
    Fence { token: Token, first: u64, count: u32 },
}

#[cfg(feature = "redis")]
impl Op {
    pub(crate) fn token(&self) -> Token {
        match *self {
            Op::TryAcquire { token, .. }
            | Op::Acquire { token, .. }
            | Op::Release { token, .. }
            | Op::Renew { token, .. }
            | Op::Fence { token, .. } => token,
        }
    }
}
