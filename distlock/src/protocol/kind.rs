//! Kinds of locks, and what stands in the key of each.

use std::fmt;

/// What kind of lock is asked for. Exclusive and shared ones exclude each other; a limited one shares its key
/// with nothing but itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Exclusive,
    Shared,
    /// At most so many holders.
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

/// What stands in the key of a lock that is held by readers.
pub(crate) const SHARED_MARKER: &str = "dl1:s";

/// What the key of a limited lock begins with; its limit follows.
pub(crate) const LIMITED_MARKER: &str = "dl1:p:";

/// The kind of lock that the value of its key stands for.
pub(crate) fn kind_of(holder: &str) -> Kind {
    if holder == SHARED_MARKER {
        return Kind::Shared;
    }
    let limit = holder.strip_prefix(LIMITED_MARKER).and_then(|limit| limit.parse().ok());
    limit.map_or(Kind::Exclusive, Kind::Limited)
}
