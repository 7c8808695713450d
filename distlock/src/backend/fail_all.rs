//! One failure of a command that was meant for several locks.

use super::StoreError;

/// The same error for each of `count` operations.
pub(crate) fn fail_all<T>(count: usize, error: &StoreError) -> Vec<Result<T, StoreError>> {
    std::iter::repeat_with(|| Err(error.clone())).take(count).collect()
}
