//! Requests with the options of the attribute.

use std::time::Duration;

use crate::{LockError, LockKey, LockManager, LockRequest, Release, Retry};

/// The request of an annotated function. `Ok(None)`: it runs without a lock. `Err`: there is no manager. It takes
/// options in each case, because a `match` or a closure in each annotated function costs compile time.
#[derive(Debug)]
#[must_use]
pub struct Asked(pub(super) Result<Option<LockRequest>, LockError>);

/// A request with its label.
pub fn ask(
    key: Result<LockKey, LockError>,
    label: &'static str,
    manager: Result<LockManager, LockError>,
) -> Asked {
    Asked(manager.map(|manager| Some(manager.lock(key).label(label))))
}

/// A request for several locks with its label.
pub fn ask_for_all(
    keys: Vec<Result<LockKey, LockError>>,
    label: &'static str,
    manager: Result<LockManager, LockError>,
) -> Asked {
    Asked(manager.map(|manager| Some(manager.lock_all(keys).label(label))))
}

/// No request: the condition of `when` is false.
pub fn ask_for_nothing() -> Asked {
    Asked(Ok(None))
}

/// No request: there is no manager.
pub fn ask_in_vain(error: LockError) -> Asked {
    Asked(Err(error))
}

macro_rules! options {
    ($($option:ident($($argument:ident: $type:ty)?),)*) => {
        impl Asked {
            $(
                /// The option of [`LockRequest`].
                pub fn $option(self, $($argument: $type)?) -> Self {
                    Asked(self.0.map(|request| request.map(|request| request.$option($($argument)?))))
                }
            )*
        }
    };
}

options! {
    ttl(ttl: Duration),
    wait(wait: Duration),
    no_wait(),
    wait_forever(),
    retry(retry: Retry),
    no_renew(),
    max_hold(max_hold: Duration),
    min_hold(min_hold: Duration),
    fenced(),
    shared(),
    max_holders(limit: u32),
    reentrant(),
    release(release: Release),
    linger(linger: Duration),
    warn_wait(limit: Duration),
    warn_hold(limit: Duration),
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
