//! `transaction`, `once` and `fence`: what happens between the lock and the body.

use std::fmt;

use distlock_fence::{Fence, FenceError, FencedDatabase, FencedTransaction};
#[cfg(feature = "once")]
use distlock_fence::{FirstRun, OnceDatabase, Outcome};
#[cfg(feature = "once")]
use serde::{Serialize, de::DeserializeOwned};

use super::guard;
use crate::{Held, LockError};

#[cfg(feature = "once")]
pub use distlock_fence::{Once, Run};

/// What a function with a transaction returns: it commits if that is `Ok`.
#[diagnostic::on_unimplemented(
    message = "`transaction` commits if the function returns `Ok`, and this one returns `{Self}`",
    label = "not a `Result`",
    note = "return a `Result`: `Ok` commits, `Err` rolls back"
)]
pub trait ReturnsResult: Sized {
    /// What is stored by `once`.
    type Value;
    /// What rolls back.
    type Error;
    /// Which of them it is.
    fn into_result(self) -> Result<Self::Value, Self::Error>;
    /// From the one or the other.
    fn from_result(result: Result<Self::Value, Self::Error>) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E> ReturnsResult for Result<T, E> {
    type Value = T;
    type Error = E;

    fn into_result(self) -> Result<T, E> {
        self
    }

    fn from_result(result: Result<T, E>) -> Self {
        result
    }
}

/// `fence = name`. The request was fenced.
pub fn fence(held: Option<&Held>) -> Fence {
    match guard(held).fence() {
        Ok(fence) => fence,
        Err(error) => unreachable!("a fenced request was granted without a token: {error}"),
    }
}

/// The type of `name` in `transaction = name in database`, for a function whose attribute has mistakes.
pub fn transaction_of<D: FencedDatabase>(_: &D) -> &'static mut D::Transaction {
    super::placeholder()
}

/// Under the lock: begins a transaction and checks the fence.
///
/// # Errors
/// [`LockError::Fence`]
pub async fn begin<D: FencedDatabase>(
    database: &D,
    held: Option<&Held>,
) -> Result<FencedTransaction<D>, LockError> {
    Ok(FencedTransaction::begin(&guard(held).fence()?, database).await?)
}

/// The same for a run that is stored.
///
/// # Errors
/// [`LockError::Fence`]
#[cfg(feature = "once")]
pub async fn begin_once<D: OnceDatabase, R>(
    database: &D,
    held: Option<&Held>,
    once: Once,
) -> Result<Run<D, R::Value>, LockError>
where
    R: ReturnsResult<Value: DeserializeOwned>,
{
    Ok(once.begin(&guard(held).fence()?, database).await?)
}

/// `once_outcome = place`
#[cfg(feature = "once")]
pub fn set_outcome<D: FencedDatabase, T>(place: &mut Outcome, run: &Run<D, T>) {
    *place = match run {
        Run::First(_) => Outcome::FirstRun,
        Run::Replay(_) => Outcome::Replay,
    };
}

/// A section whose body is over: its lock is held, and its transaction is open.
#[must_use = "it was not committed"]
pub enum Ended<X, R> {
    /// The body has run, in this transaction.
    Run(X, R),
    /// The result of an earlier run is there.
    Replay(R),
    /// There was no transaction to run in.
    Failed(LockError),
}

impl<X, R> fmt::Debug for Ended<X, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ended").finish_non_exhaustive()
    }
}

/// An open transaction that commits a value of type `T`.
#[expect(async_fn_in_trait, reason = "the futures are as `Send` as the value")]
pub trait Open<T> {
    /// Commits.
    async fn commit(self, value: T) -> Result<T, FenceError>;
    /// Rolls back.
    async fn roll_back(self);
}

impl<D: FencedDatabase, T> Open<T> for FencedTransaction<D> {
    async fn commit(self, value: T) -> Result<T, FenceError> {
        FencedTransaction::commit(self).await?;
        Ok(value)
    }

    async fn roll_back(self) {
        FencedTransaction::roll_back(self).await;
    }
}

#[cfg(feature = "once")]
impl<D: OnceDatabase, T: Serialize> Open<T> for FirstRun<D> {
    async fn commit(self, value: T) -> Result<T, FenceError> {
        FirstRun::commit(self, &value).await?;
        Ok(value)
    }

    async fn roll_back(self) {
        FirstRun::roll_back(self).await;
    }
}

/// Commits if the body has returned `Ok`, and rolls back otherwise. The lock is released behind it. A lease that is
/// lost meanwhile changes nothing: a later holder waits for the row of the fence.
///
/// # Errors
/// [`LockError::Fence`] if it was not committed, or nobody knows whether it was.
pub async fn commit<X, R>(ended: Ended<X, R>) -> Result<R, LockError>
where
    R: ReturnsResult,
    X: Open<R::Value>,
{
    match ended {
        Ended::Run(transaction, value) => match value.into_result() {
            Ok(value) => Ok(R::from_result(Ok(transaction.commit(value).await?))),
            Err(error) => {
                transaction.roll_back().await;
                Ok(R::from_result(Err(error)))
            }
        },
        Ended::Replay(value) => Ok(value),
        Ended::Failed(error) => Err(error),
    }
}
