//! The value of the key of each kind of lock.

use distlock_store::LockKind;

use super::LIMITED_MARKER;

/// The value of the key of a lock that readers hold.
pub(crate) const SHARED_MARKER: &str = "dl1:s";

/// The kind of lock that the value of a key belongs to.
pub(crate) fn kind_of(holder: &str) -> LockKind {
    if holder == SHARED_MARKER {
        return LockKind::Shared;
    }
    let limit = holder.strip_prefix(LIMITED_MARKER).and_then(|limit| limit.parse().ok());
    limit.map_or(LockKind::Exclusive, |max_holders| LockKind::Limited { max_holders })
}
