//! `transaction`, `once` and `fence`: the steps between the lock and the body.

use std::fmt;

use distlock_fence::blocking::{self, Connections};
use distlock_fence::{Fence, FenceError, FencedDatabase, FencedTransaction};
#[cfg(feature = "once")]
use distlock_fence::{FirstRun, OnceDatabase, Outcome, blocking::OnceConnection};
#[cfg(feature = "once")]
use serde::{Serialize, de::DeserializeOwned};

use super::{OnLost, guard};
use crate::{Held, LockError};

#[cfg(feature = "once")]
pub use distlock_fence::{Once, Run};

/// The return type of a function with a transaction, which commits if the value is `Ok`.
#[diagnostic::on_unimplemented(
    message = "`transaction` commits if the function returns `Ok`, and this one returns `{Self}`",
    label = "not a `Result`",
    note = "return a `Result`: `Ok` commits, `Err` rolls back"
)]
pub trait ReturnsResult: Sized {
    /// A value that `once` stores.
    type Value;
    /// The error, which rolls the transaction back.
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

/// The same for a function that blocks.
pub fn connection_of<C: Connections>(_: &C) -> &'static mut C::Connection {
    super::placeholder()
}

/// The database of `transaction = name in database`. A type that is not a database lacks these methods. Then the types
/// of the following expressions are not known, and the compiler reports only the first error.
#[derive(Debug)]
pub struct Database<'d, D>(&'d D);

/// The place where the compiler's message lists the supported libraries, if the type is not a database.
pub fn database<D: FencedDatabase>(database: &D) -> Database<'_, D> {
    Database(database)
}

impl<D: FencedDatabase> Database<'_, D> {
    /// Under the lock: begins a transaction and checks the fence.
    ///
    /// # Errors
    /// [`LockError::Fence`]
    pub async fn begin(self, held: Option<&Held>) -> Result<FencedTransaction<D>, LockError> {
        Ok(FencedTransaction::begin(&guard(held).fence()?, self.0).await?)
    }
}

#[cfg(feature = "once")]
impl<D: OnceDatabase> Database<'_, D> {
    /// The same for a run that is stored.
    ///
    /// # Errors
    /// [`LockError::Fence`]
    pub async fn begin_once<T: DeserializeOwned>(
        self,
        held: Option<&Held>,
        once: Once,
    ) -> Result<Run<D, T>, LockError> {
        Ok(once.begin(&guard(held).fence()?, self.0).await?)
    }
}

/// A section whose body is over: its lock is held, and its transaction is open.
#[must_use = "it was not committed"]
pub enum Ended<X, R> {
    /// The body has run, in this transaction.
    Run(X, R),
    /// The result of an earlier run is there.
    Replay(R),
}

impl<X, R> fmt::Debug for Ended<X, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ended").finish_non_exhaustive()
    }
}

/// An open transaction that commits a value of type `T`.
#[expect(async_fn_in_trait, reason = "the futures are as `Send` as the value")]
pub trait Open<T> {
    /// Commits an `Ok`, and rolls back otherwise.
    async fn end<E>(self, result: Result<T, E>) -> Result<Result<T, E>, FenceError>;
}

impl<D: FencedDatabase, T> Open<T> for FencedTransaction<D> {
    async fn end<E>(self, result: Result<T, E>) -> Result<Result<T, E>, FenceError> {
        FencedTransaction::end(self, result).await
    }
}

#[cfg(feature = "once")]
impl<D: OnceDatabase, T: Serialize> Open<T> for FirstRun<D> {
    async fn end<E>(self, result: Result<T, E>) -> Result<Result<T, E>, FenceError> {
        FirstRun::end(self, result).await
    }
}

/// Commits if the body has returned `Ok`, and rolls back otherwise. The lock is released afterwards. A lease that is
/// lost meanwhile changes nothing: a later holder waits for the row of the fence. `section` is an error if the lease
/// was lost during the body, and contains an error if the transaction could not begin.
///
/// # Errors
/// Those of `section`, and [`LockError::Fence`] if the transaction was not committed, or if it is unknown whether it
/// was.
pub async fn commit<X, R>(section: Result<Result<Ended<X, R>, LockError>, LockError>) -> Result<R, LockError>
where
    R: ReturnsResult,
    X: Open<R::Value>,
{
    match section?? {
        Ended::Run(transaction, value) => Ok(R::from_result(transaction.end(value.into_result()).await?)),
        Ended::Replay(value) => Ok(value),
    }
}

/// Why a transaction on a thread was not committed.
enum Undone<E> {
    Lock(LockError),
    Body(E),
}

impl<E> From<FenceError> for Undone<E> {
    fn from(error: FenceError) -> Self {
        Undone::Lock(error.into())
    }
}

fn returned<R: ReturnsResult>(done: Result<R::Value, Undone<R::Error>>) -> Result<R, LockError> {
    match done {
        Ok(value) => Ok(R::from_result(Ok(value))),
        Err(Undone::Body(error)) => Ok(R::from_result(Err(error))),
        Err(Undone::Lock(error)) => Err(error),
    }
}

/// The body's return value. If the lease was lost meanwhile, the transaction is rolled back, unless `on_lost` says
/// otherwise.
fn kept<R: ReturnsResult>(value: R, held: &Held, on_lost: OnLost) -> Result<R::Value, Undone<R::Error>> {
    let value = value.into_result().map_err(Undone::Body)?;
    match on_lost {
        OnLost::Cancel => held.check().map_err(Undone::Lock)?,
        OnLost::Continue => {}
    }
    Ok(value)
}

/// Under the lock, on a thread: begins a transaction, checks the fence, runs the body, and commits if it returns `Ok`.
///
/// # Errors
/// [`LockError::Fence`], and the loss of the lock if it is noticed before the commit.
pub fn transaction_blocking<C: Connections, R: ReturnsResult>(
    connections: &C,
    held: Option<&Held>,
    on_lost: OnLost,
    body: impl FnOnce(&mut C::Connection) -> R,
) -> Result<R, LockError> {
    let held = guard(held);
    let fence = held.fence()?;
    let body = |connection: &mut C::Connection| kept(body(connection), held, on_lost);
    returned(blocking::transaction_in(&fence, connections, body))
}

/// The same for a run that is stored. The outcome belongs to a stored result, or to a body that has run.
#[cfg(feature = "once")]
pub fn once_blocking<C, R>(
    connections: &C,
    held: Option<&Held>,
    on_lost: OnLost,
    once: &Once,
    body: impl FnOnce(&mut C::Connection) -> R,
) -> (Result<R, LockError>, Option<Outcome>)
where
    C: Connections<Connection: OnceConnection>,
    R: ReturnsResult<Value: Serialize + DeserializeOwned>,
{
    let held = guard(held);
    let mut outcome = None;
    let run = || {
        let fence = held.fence().map_err(Undone::Lock)?;
        let done = blocking::once_in(&fence, connections, once, |connection: &mut C::Connection| {
            outcome = Some(Outcome::FirstRun);
            kept(body(connection), held, on_lost)
        })?;
        outcome = Some(done.outcome);
        Ok(done.value)
    };
    let done = run();
    (returned(done), outcome)
}
