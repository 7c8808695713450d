//! Kinds of locks, and the value of the key of each.

use std::fmt;

use distlock_store::LockKind;

use super::LIMITED_MARKER;

/// The kind of lock that is requested. Exclusive and shared locks exclude each other. A limited lock excludes
/// both of them, and limited locks with another limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Exclusive,
    Shared,
    /// At most this many holders.
    Limited(u32),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Exclusive => f.write_str("an exclusive lock"),
            Kind::Shared => f.write_str("a shared lock"),
            Kind::Limited(n) => write!(f, "a lock of at most {n} holders"),
        }
    }
}

/// The value of the key of a lock that readers hold.
pub(crate) const SHARED_MARKER: &str = "dl1:s";

/// The kind of lock that the value of a key belongs to.
pub(crate) fn kind_of(holder: &str) -> Kind {
    if holder == SHARED_MARKER {
        return Kind::Shared;
    }
    let limit = holder.strip_prefix(LIMITED_MARKER).and_then(|limit| limit.parse().ok());
    limit.map_or(Kind::Exclusive, Kind::Limited)
}

impl From<Kind> for LockKind {
    fn from(kind: Kind) -> LockKind {
        match kind {
            Kind::Exclusive => LockKind::Exclusive,
            Kind::Shared => LockKind::Shared,
            Kind::Limited(max_holders) => LockKind::Limited { max_holders },
        }
    }
}

impl From<LockKind> for Kind {
    fn from(kind: LockKind) -> Kind {
        match kind {
            LockKind::Shared => Kind::Shared,
            LockKind::Limited { max_holders } => Kind::Limited(max_holders),
            // The versions of both crates are the same. If they were not: what excludes everybody is safe.
            LockKind::Exclusive | _ => Kind::Exclusive,
        }
    }
}
