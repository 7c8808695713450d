//! The owner column of a key with several holders: the kind of lock.

use distlock_store::LockKind;
use distlock_store::engine::LIMITED_MARKER;

/// The owner column of a shared key.
const SHARED: &str = "dl1:s";

/// The owner column of a key that several holders lock in this way, and how many holders there may be.
pub(super) fn written(kind: LockKind) -> (String, u32) {
    match kind {
        LockKind::Limited { max_holders } => (format!("{LIMITED_MARKER}{max_holders}"), max_holders),
        _ => (SHARED.to_owned(), u32::MAX),
    }
}

/// The kind of lock of a key that has this owner column.
pub(super) fn kind_of(owner: &str) -> LockKind {
    if owner == SHARED {
        return LockKind::Shared;
    }
    let limit = owner.strip_prefix(LIMITED_MARKER).and_then(|limit| limit.parse().ok());
    limit.map_or(LockKind::Exclusive, |max_holders| LockKind::Limited { max_holders })
}

#[cfg(test)]
mod tests {
    use super::*;
    use distlock_store::KEPT;

    #[test]
    fn what_stands_for_a_kind_is_read_as_that_kind() {
        for kind in [LockKind::Shared, LockKind::Limited { max_holders: 2 }] {
            assert_eq!(kind_of(&written(kind).0), kind);
        }
        for owner in ["-", "dl1:a:7", KEPT, "dl1:hold:dl1:a:7", "dl1:p:", "dl1:s:7"] {
            assert_eq!(kind_of(owner), LockKind::Exclusive, "{owner}");
        }
    }
}
