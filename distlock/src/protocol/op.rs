//! What a store can be asked to do.

use super::{Kind, ServerTime, Token};
use std::time::Duration;

/// What `enter` does when somebody else holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcquireMode {
    /// Nothing.
    Try,
    /// Queue; the grant is pushed.
    Wait,
    /// Queue; nobody listens for pushes, the waiter asks again by itself.
    Poll,
    /// [`AcquireMode::Wait`], and the token may be queued already.
    WaitAgain,
    /// [`AcquireMode::Poll`], and the token may be queued already.
    PollAgain,
}

/// One operation on one key. Durations are whole milliseconds, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Takes a free lock and nothing else: the cheapest command there is. A backend may carry it out as
    /// `Acquire` with [`AcquireMode::Try`]. Replies: `Acquired`, `AlreadyHeld`, `Busy`, `WrongKind`.
    TryAcquire { token: Token, ttl: Duration },
    /// Acquire, queue, heartbeat or claim. `claim` is for how long a grant made to this entry lives,
    /// `fences` how many fencing tokens to reserve (0: unfenced). Replies as for `TryAcquire`.
    Acquire { token: Token, kind: Kind, ttl: Duration, claim: Duration, mode: AcquireMode, fences: u32 },
    /// Release and hand on; or leave the queue; or undo whatever an earlier command of this token may have
    /// done. With `keep_taken_for` the key stays taken (by no token) that much longer. `handoffs_began` is when the
    /// current run of hand-offs began, 0 if unknown. Replies: `Released`, `Cancelled`, `NotHeld`.
    Release { token: Token, keep_taken_for: Option<Duration>, handoffs_began: ServerTime },
    /// Sets the lease to `ttl` from now unless it is longer already. Never creates. Replies: `Renewed`,
    /// `NotHeld`.
    Renew { token: Token, kind: Kind, ttl: Duration },
    /// Raises the server's counter of fencing tokens to the last of `count` tokens that begin with `first`, if
    /// the lock is ours; for backends of several servers, which agree on tokens by it. Replies: `Fenced`,
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
