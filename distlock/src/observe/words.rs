//! Words that spans and events share.

use std::fmt::{self, Display, Formatter};

use crate::error::LockError;
use crate::protocol::LockKind;

/// Which error, in a word or two.
pub(super) fn kind(error: &LockError) -> &'static str {
    match error {
        LockError::Busy { .. } => "busy",
        LockError::Lost { .. } => "lost",
        LockError::Unavailable { .. } => "unavailable",
        LockError::WrongKind { .. } => "wrong kind",
        LockError::WouldDeadlock { .. } => "would deadlock",
        LockError::Fence(_) => "fence",
        LockError::InvalidKey { .. } => "invalid key",
        LockError::InvalidOptions { .. } => "invalid options",
        LockError::InvalidTicket { .. } => "invalid ticket",
        LockError::NotInitialized => "not initialized",
        LockError::Closed => "closed",
    }
}

/// The same for `error.type`, whose values are words without spaces.
pub(super) fn error_type(error: &LockError) -> &'static str {
    match error {
        LockError::WrongKind { .. } => "wrong_kind",
        LockError::WouldDeadlock { .. } => "would_deadlock",
        LockError::InvalidKey { .. } => "invalid_key",
        LockError::InvalidOptions { .. } => "invalid_options",
        LockError::InvalidTicket { .. } => "invalid_ticket",
        LockError::NotInitialized => "not_initialized",
        other => kind(other),
    }
}

/// A kind of lock, in the words of the command `distlock`.
pub(super) struct KindOfLock(pub(super) LockKind);

impl Display for KindOfLock {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            LockKind::Exclusive => f.write_str("exclusive"),
            LockKind::Shared => f.write_str("shared"),
            LockKind::Limited { max_holders: most } => write!(f, "at most {most}"),
        }
    }
}
