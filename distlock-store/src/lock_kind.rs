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

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockKind::Exclusive => f.write_str("an exclusive lock"),
            LockKind::Shared => f.write_str("a shared lock"),
            LockKind::Limited { max_holders } => write!(f, "a lock of at most {max_holders} holders"),
        }
    }
}
