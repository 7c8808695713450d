//! The replies of a store: one type for each operation. Every variant was checked to be about the operation's own
//! token.

use super::{MARK, ServerTime, StoreError, parse_owner};
use std::sync::Arc;
use std::time::Duration;

/// The result of an operation whose reply is `T`.
pub(crate) type OpResult<T> = Result<T, StoreError>;

/// The remaining time to live of a key that another token holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remaining {
    /// The reply did not tell.
    Unknown,
    /// The key never expires: it was not set by this library, or was changed by hand.
    Forever,
    For(Duration),
}

/// The holder of a lock that another token asks for. The contract's [`Busy`](distlock_store::Busy) does not define how
/// the holder's text is read. This type does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CurrentHolder {
    pub(crate) text: Arc<str>,
    /// Waiters are notified when it releases. If they are not, the first waiter polls.
    pub(crate) hands_over: bool,
    /// It may keep the lock for this long after its section, and releases it when another process requests it.
    pub(crate) linger: Option<Duration>,
}

impl From<Arc<str>> for CurrentHolder {
    /// A holder of which only the text is known: users of this library hand over.
    fn from(text: Arc<str>) -> Self {
        let linger = parse_owner(&text).and_then(|(_, token)| token.linger());
        CurrentHolder { hands_over: text.starts_with(MARK), linger, text }
    }
}

impl From<&str> for CurrentHolder {
    fn from(text: &str) -> Self {
        Arc::<str>::from(text).into()
    }
}

/// The reply to an [`Ask`](super::op::Ask): the contract's, with the time on the server's clock, and with locks that
/// never expire, which clients of other libraries leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AcquireReply {
    /// The lock was free and is ours. `fence` is the first of the reserved tokens.
    Acquired { server_time: Option<ServerTime>, fence: Option<u64> },
    /// The lock was already ours, and its lease lasts at least the ttl sent.
    AlreadyHeld { server_time: Option<ServerTime>, fence: Option<u64> },
    /// Another token holds it. `front`: our entry is the first in the queue.
    Busy { server_time: Option<ServerTime>, holder: CurrentHolder, remaining: Remaining, front: bool },
    /// The key holds something that is not a lock of this kind.
    WrongKind { found: Arc<str> },
    /// Only to a [`Replace`](super::op::Replace): the holder that it names does not hold the lock.
    NotHeld,
}

impl AcquireReply {
    /// True if the acquisition succeeded.
    pub(crate) fn is_acquired(&self) -> bool {
        matches!(self, AcquireReply::Acquired { .. } | AcquireReply::AlreadyHeld { .. })
    }

    /// The time of the reply on the server's clock, if it tells one.
    pub(crate) fn server_time(&self) -> Option<ServerTime> {
        match self {
            AcquireReply::Acquired { server_time, .. }
            | AcquireReply::AlreadyHeld { server_time, .. }
            | AcquireReply::Busy { server_time, .. } => *server_time,
            AcquireReply::WrongKind { .. } | AcquireReply::NotHeld => None,
        }
    }

    /// True if the lock is held and the reply does not say by which token.
    pub(crate) fn names_a_marker(&self) -> bool {
        let is_marker = |holder: &str| super::kind_of(holder) != super::LockKind::Exclusive;
        matches!(self, AcquireReply::Busy { holder, .. } if is_marker(&holder.text))
    }
}

/// The reply to an [`Acquire`](super::op::Acquire) that was one of several in a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BatchReply {
    Tried(AcquireReply),
    /// Nothing was done: the command ended at a key in front of this one.
    Skipped,
}

impl BatchReply {
    /// The reply to the acquisition, if it was tried.
    pub(crate) fn tried(&self) -> Option<&AcquireReply> {
        match self {
            BatchReply::Tried(reply) => Some(reply),
            BatchReply::Skipped => None,
        }
    }
}

/// The reply to a [`Release`](super::op::Release): the contract's, with what the queue of a Redis server tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseReply {
    /// The lock was ours and no longer is. `gap`: it was left free for plain pollers; or, on one of
    /// several servers, it was handed on to a waiter.
    Released { gap: bool },
    /// The lock was not ours, but a queue entry was; the entry was removed.
    Cancelled,
    /// Neither the lock nor a queue entry was ours.
    NotHeld,
}

/// The reply to a [`Renew`](super::op::Renew): the contract's, with the time on the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenewReply {
    Renewed { server_time: ServerTime },
    NotHeld,
}

/// The reply to a [`Fence`](super::op::Fence).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FenceReply {
    /// The highest fencing token that the server knew before; 0: none.
    Fenced {
        last: u64,
    },
    NotHeld,
}
