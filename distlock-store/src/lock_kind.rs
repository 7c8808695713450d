//! Kinds of locks, for those who look from outside.

/// What a lock is held as.
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
#[non_exhaustive]
pub enum LockKind {
    /// By one, and nobody else.
    Exclusive,
    /// By readers.
    Shared,
    /// By at most so many.
    Limited {
        /// The limit.
        max_holders: u32,
    },
}
