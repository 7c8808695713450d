//! How a lock error reaches the caller.

use crate::LockError;

/// A value that is never created. Its type determines the type of an async block, which has no signature.
#[must_use]
pub fn placeholder<T>() -> T {
    unreachable!("the expansion of `#[distributed_lock]` never runs this")
}

/// A return type that can carry every lock error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot carry a `distlock::LockError`",
    label = "a busy or lost lock could not be reported",
    note = "return a `Result` whose error implements `From<distlock::LockError>`; with thiserror, add the variant \
            `#[error(transparent)] Lock(#[from] distlock::LockError)`",
    note = "or make that error with `map_err = |error| ..`, or the whole value with `on_error = |error| ..`"
)]
pub trait CarriesLockError {
    /// The value that says so.
    fn from_lock_error(error: LockError) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>> CarriesLockError for Result<T, E> {
    fn from_lock_error(error: LockError) -> Self {
        Err(E::from(error))
    }
}

/// The same with `on_busy`. It is a separate trait, so that its error message can differ.
#[diagnostic::on_unimplemented(
    message = "`on_busy` covers a busy lock only, and `{Self}` cannot carry other lock errors",
    label = "a lost or unavailable lock could not be reported",
    note = "return a `Result` whose error implements `From<distlock::LockError>`; with thiserror, add the variant \
            `#[error(transparent)] Lock(#[from] distlock::LockError)`",
    note = "or make that error with `map_err = |error| ..`, or the whole value with `on_error = |error| ..`"
)]
pub trait CarriesOtherLockErrors: CarriesLockError {}

#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>> CarriesOtherLockErrors for Result<T, E> {}

/// A return type with an error that `map_err` can make.
#[diagnostic::on_unimplemented(
    message = "`map_err` makes the error of a `Result`, but the function returns `{Self}`",
    label = "not a `Result`",
    note = "make the whole value with `on_error = |error| ..`"
)]
pub trait HasError: Sized {
    /// The error.
    type Error;
    /// The value with the error.
    fn from_error(error: Self::Error) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E> HasError for Result<T, E> {
    type Error = E;
    fn from_error(error: E) -> Self {
        Err(error)
    }
}

/// The function's value, by `From`.
pub fn finish<R: CarriesLockError>(result: Result<R, LockError>) -> R {
    result.unwrap_or_else(R::from_lock_error)
}

/// The same when `on_busy` takes a part.
pub fn finish_unless_busy<R: CarriesOtherLockErrors>(result: Result<R, LockError>) -> R {
    finish(result)
}

/// The function's value, by `map_err`.
pub fn finish_map_err<R: HasError>(
    result: Result<R, LockError>,
    map_err: impl FnOnce(LockError) -> R::Error,
) -> R {
    result.unwrap_or_else(|error| R::from_error(map_err(error)))
}

/// The function's value, by `on_error`.
pub fn finish_on_error<R>(result: Result<R, LockError>, on_error: impl FnOnce(LockError) -> R) -> R {
    result.unwrap_or_else(on_error)
}

/// Whether a body's value says that it succeeded, for `on_lost = "error"`: anything but an `Err` does.
#[derive(Debug)]
pub struct Outcome<'a, T>(pub &'a T);

impl<T, E> Outcome<'_, Result<T, E>> {
    /// Whether it is `Ok`.
    pub fn is_success(&self) -> bool {
        self.0.is_ok()
    }
}

/// For values that are no `Result`; the inherent method comes first.
pub trait AnyOutcome {
    /// Always.
    fn is_success(&self) -> bool {
        true
    }
}

impl<T> AnyOutcome for Outcome<'_, T> {}
