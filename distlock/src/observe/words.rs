//! Words that spans and events share.

use crate::error::LockError;

/// Which error, in a word or two.
pub(super) fn kind(error: &LockError) -> &'static str {
    match error {
        LockError::Busy { .. } => "busy",
        LockError::Lost { .. } => "lost",
        LockError::Unavailable { .. } => "unavailable",
        LockError::WrongKind { .. } => "wrong kind",
        LockError::WouldDeadlock { .. } => "would deadlock",
        LockError::InvalidKey { .. } => "invalid key",
        LockError::InvalidOptions { .. } => "invalid options",
        LockError::NotInitialized => "not initialized",
        LockError::Closed => "closed",
    }
}
