//! Whether a failed command may have been applied.

use super::{Failure, StoreError, mutated};

/// Whether the command, or a part of it, may have been applied or may be applied later.
pub(crate) fn may_be_applied(error: &StoreError) -> bool {
    match error.kind {
        Failure::Unknown => true,
        Failure::Refused => !mutated!(RefusalIsNothingDone),
        Failure::NotSent | Failure::Later => false,
    }
}
