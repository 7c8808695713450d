//! Kinds of locks, and the value of the key of each.

use std::fmt;

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

/// The first part of the value of a limited lock's key. The limit follows.
pub(crate) const LIMITED_MARKER: &str = "dl1:p:";

/// The kind of lock that the value of a key belongs to.
pub(crate) fn kind_of(holder: &str) -> Kind {
    if holder == SHARED_MARKER {
        return Kind::Shared;
    }
    let limit = holder.strip_prefix(LIMITED_MARKER).and_then(|limit| limit.parse().ok());
    limit.map_or(Kind::Exclusive, Kind::Limited)
}
