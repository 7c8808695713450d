//! Whether a lease may stay with this process between its sections.

use crate::protocol::Time;

/// Whether a lease may stay with this process after its last section, without a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linger {
    /// No: its token does not say so, or another process wants the lock or may want it.
    Never,
    /// It has not stayed yet.
    May,
    /// A section has ended before: until then at most.
    Until(Time),
}
