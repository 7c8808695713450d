//! Helpers: the holders that believe in their lock, and managers that work on one key.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod court;
mod faults;
mod fleet;
pub(crate) mod kinds_faults;

use std::time::Duration;

use distlock::{LockError, LockManager};

pub(crate) use court::{Court, Tokens};
pub(crate) use faults::{
    answers_slow_or_late, at_work, faults, holder_behind_a_stopped_server, judge, links_cut, links_half_open,
    server_killed, server_not_there, server_stopped,
};
pub(crate) use fleet::Fleet;
pub(crate) use kinds_faults::kinds_faults;

/// Much longer than any test runs.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// A text that no error may contain.
pub(crate) const SECRET: &str = "s3cret";

/// A manager whose requests never time out.
pub(crate) async fn manager(url: &str) -> LockManager {
    LockManager::builder().url(url).unavailable_after(LONG).connect().await.unwrap()
}

/// The error of a failed connection.
pub(crate) async fn refusal(url: &str) -> LockError {
    LockManager::builder().url(url).connect().await.unwrap_err()
}

/// The error of a URL that is refused without a connection. Checks that it contains no secret.
#[must_use]
pub(crate) fn objection(url: &str) -> String {
    let error = LockManager::builder().url(url).connect_lazy().unwrap_err();
    assert!(matches!(error, LockError::InvalidOptions { .. }), "{error:?}");
    let text = format!("{error} {error:?}");
    assert!(!text.contains(SECRET), "{text}");
    text
}
