//! One failure of a command that was meant for several locks.

use super::OpError;

/// The same error for each of `count` operations.
pub(crate) fn fail_all<T>(count: usize, error: &OpError) -> Vec<Result<T, OpError>> {
    std::iter::repeat_with(|| Err(error.clone())).take(count).collect()
}
