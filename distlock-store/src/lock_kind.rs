//! Kinds of locks.

use std::fmt;

/// The kind of a lock. Exclusive and shared locks exclude each other. A limited lock excludes both of them, and limited
/// locks with another limit.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// use distlock::LockKind;
///
/// let _guard = manager.lock("catalogue").shared().acquire().await?;
/// let info = manager.inspect("catalogue").await?.expect("it is held");
/// assert_eq!(info.kind, LockKind::Shared);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// One holder.
    Exclusive,
    /// Any number of readers.
    Shared,
    /// At most `limit` holders.
    Limited {
        /// The limit.
        max_holders: u32,
    },
}

/// Whether places of both kinds may stand in one queue of a store.
pub fn go_together(one: LockKind, other: LockKind) -> bool {
    let is_limited = |kind| matches!(kind, LockKind::Limited { .. });
    one == other || !(is_limited(one) || is_limited(other))
}

/// A place of this kind holds the lock if fewer than this many places exclude it.
pub fn room(kind: LockKind) -> usize {
    match kind {
        LockKind::Exclusive | LockKind::Shared => 1,
        LockKind::Limited { max_holders } => usize::try_from(max_holders).unwrap_or(usize::MAX),
    }
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockKind::Exclusive => f.write_str("an exclusive lock"),
            LockKind::Shared => f.write_str("a shared lock"),
            LockKind::Limited { max_holders } => write!(f, "a lock of at most {max_holders} holders"),
        }
    }
}
