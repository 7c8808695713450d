//! Releases a lock by force, but only the leases of the holders that were shown.

use distlock::{ForcedRelease, LockError, LockManager};

/// The result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The leases of these owners have ended.
    From(Vec<String>),
    /// None of the owners holds the lock. This one does.
    HeldByAnother(String),
    NotHeld,
}

/// Ends the leases that these owners still have.
pub(crate) async fn take_from(
    manager: &LockManager,
    key: &str,
    owners: &[String],
) -> Result<Taken, LockError> {
    let (mut taken, mut otherwise) = (Vec::new(), Taken::NotHeld);
    for owner in owners {
        match manager.force_release_from(key, owner).await? {
            ForcedRelease::Released { from } => taken.push(from),
            ForcedRelease::HeldByAnother { holder } => otherwise = Taken::HeldByAnother(holder),
            _ => otherwise = Taken::NotHeld,
        }
    }
    Ok(if taken.is_empty() { otherwise } else { Taken::From(taken) })
}
