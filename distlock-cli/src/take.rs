//! Releases a lock by force, but only the leases of the holders that were shown.

use std::fmt;

use distlock::{ForcedRelease, LockError, LockManager};

use crate::words::clients;

/// The result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The leases of these owners have ended.
    From(Vec<String>),
    /// None of the owners holds the lock. This one does.
    HeldByAnother(String),
    NotHeld,
}

/// A forced release that has failed.
#[derive(Debug)]
pub(crate) struct NotTaken {
    pub(crate) error: LockError,
    /// The leases of these owners had ended before.
    pub(crate) taken: Vec<String>,
}

impl From<LockError> for NotTaken {
    fn from(error: LockError) -> Self {
        NotTaken { error, taken: Vec::new() }
    }
}

impl fmt::Display for NotTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        match &self.taken[..] {
            [] => Ok(()),
            taken => write!(f, "; it was already taken from {}", clients(taken)),
        }
    }
}

/// Ends the leases that these owners still have.
pub(crate) async fn take_from(
    manager: &LockManager,
    key: &str,
    owners: &[String],
) -> Result<Taken, NotTaken> {
    let (mut taken, mut otherwise) = (Vec::new(), Taken::NotHeld);
    for owner in owners {
        match manager.force_release_from(key, owner).await {
            Ok(ForcedRelease::Released { from }) => taken.push(from),
            Ok(ForcedRelease::HeldByAnother { holder }) => otherwise = Taken::HeldByAnother(holder),
            Ok(_) => otherwise = Taken::NotHeld,
            Err(error) => return Err(NotTaken { error, taken }),
        }
    }
    Ok(if taken.is_empty() { otherwise } else { Taken::From(taken) })
}
