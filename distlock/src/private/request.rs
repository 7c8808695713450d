//! Requests with the options that were written as literals.

use std::time::Duration;

use crate::{LockError, LockKey, LockManager, LockRequest};

/// A request with its label.
pub fn request(manager: &LockManager, key: Result<LockKey, LockError>, label: &'static str) -> LockRequest {
    manager.lock(key).label(label)
}

/// A request for several locks with its label.
pub fn request_all(
    manager: &LockManager,
    keys: Vec<Result<LockKey, LockError>>,
    label: &'static str,
) -> LockRequest {
    manager.lock_all(keys).label(label)
}

/// Makes the compiler warn about `name = ..` at its place in the source.
#[deprecated(note = "the option `name` is called `label` now, as everywhere else: write `label = \"..\"`")]
pub const fn former_name() {}

/// Makes the compiler warn of `key = "order:id"` where `id` is an argument.
#[deprecated(
    note = "a word of this template is the name of an argument, and the same text for every call: for its \
                     value write it as `<name>`; if the text is meant, give the key as an expression, as in \
                     `key = String::from(\"order:id\")`"
)]
pub const fn literal_name() {}

/// A duration that was checked at compile time.
#[must_use]
pub const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Whether an acquisition failed because the lock is busy, and for no other reason.
pub fn is_busy<T>(acquired: &Result<T, LockError>) -> bool {
    acquired.as_ref().is_err_and(LockError::is_busy)
}
