//! Transactions of `tokio-postgres`, on your own client or a client of a pool. (The pools of `deadpool-postgres` are
//! databases for [`transaction`](crate::transaction()) and `once`: feature `deadpool-postgres`.)
//!
//! ```
//! use distlock_fence::Fence;
//! # #[derive(Debug)] enum RedeemError { Fence(distlock_fence::FenceError), Database(tokio_postgres::Error) }
//! # impl From<distlock_fence::FenceError> for RedeemError {
//! #     fn from(error: distlock_fence::FenceError) -> Self { RedeemError::Fence(error) }
//! # }
//! # impl From<tokio_postgres::Error> for RedeemError {
//! #     fn from(error: tokio_postgres::Error) -> Self { RedeemError::Database(error) }
//! # }
//!
//! async fn redeem(
//!     client: &mut tokio_postgres::Client,
//!     fence: &Fence,
//!     user: i64,
//!     price: i64,
//! ) -> Result<(), RedeemError> {
//!     distlock_fence::tokio_postgres::transaction(fence, client, async |tx| {
//!         let sql = "UPDATE account SET points = points - $1 WHERE id = $2";
//!         tx.execute(sql, &[&price, &user]).await?;
//!         Ok(())
//!     })
//!     .await
//! }
//! ```

#[cfg(feature = "once")]
use std::time::Duration;
use std::{error, mem};

#[cfg(feature = "once")]
use serde::{Serialize, de::DeserializeOwned};

use futures_util::future::join;
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Transaction};

use crate::error::is_refused_by_postgres;
#[cfg(feature = "once")]
use crate::once_statements::{POSTGRES, millis, stored};
use crate::same_database::asserted;
#[cfg(feature = "once")]
use crate::{Done, Once, Outcome, Stored};
use crate::{Fence, FenceError, SameDatabase, signed, statements};

/// [`transaction`](crate::transaction()) on a client: the same order, the same promises, the same errors.
///
/// # Errors
/// The errors of `body`, and every [`FenceError`].
///
/// # Cancel safety
/// If the future is dropped before the commit was sent, nothing is changed. If it is dropped later, the transaction may
/// have been committed.
pub async fn transaction<T, E, F>(fence: &Fence, client: &mut Client, body: F) -> Result<T, E>
where
    E: From<FenceError>,
    F: AsyncFnOnce(&mut Transaction<'_>) -> Result<T, E>,
{
    let mut transaction = begin(client, fence).await?;
    check(transaction.client(), fence).await?;
    let value = body(&mut transaction).await?;
    commit(transaction, fence).await?;
    Ok(value)
}

/// [`once`](crate::once()) on a client: the same order, the same promises, the same errors.
///
/// # Errors
/// The errors of `body`, and every [`FenceError`].
///
/// # Cancel safety
/// If the future is dropped before the commit was sent, nothing is changed. If it is dropped later, the transaction may
/// have been committed, and the next call finds out.
#[cfg(feature = "once")]
pub async fn once<T, E, F>(fence: &Fence, client: &mut Client, once: &Once, body: F) -> Result<Done<T>, E>
where
    T: Serialize + DeserializeOwned,
    E: From<FenceError>,
    F: AsyncFnOnce(&mut Transaction<'_>) -> Result<T, E>,
{
    let arguments = once.digest(fence)?;
    // One query, without a transaction, for requests that are repeated.
    if let Some(stored) = find(client, fence).await? {
        return Ok(stored.replay(fence, arguments.as_deref())?);
    }
    let mut transaction = begin(client, fence).await?;
    check(transaction.client(), fence).await?;
    // An earlier holder may have committed since then: the check of the fence has waited for it.
    if let Some(stored) = find(transaction.client(), fence).await? {
        return Ok(stored.replay(fence, arguments.as_deref())?);
    }
    let value = body(&mut transaction).await?;
    let stored = Stored::new(&value, arguments, fence)?;
    store(transaction.client(), fence, &stored, once.keep()).await?;
    commit(transaction, fence).await?;
    Ok(Done { value, outcome: Outcome::FirstRun })
}

/// Deletes expired results, and returns their number. Call it in a job that runs now and then.
///
/// # Errors
/// The error of the database.
#[cfg(feature = "once")]
pub async fn prune(client: &Client) -> Result<u64, Box<dyn error::Error + Send + Sync>> {
    Ok(client.execute(POSTGRES.prune, &[]).await?)
}

impl SameDatabase<&mut Client> {
    /// [`transaction`] on a client of the database that also keeps the lock.
    ///
    /// # Errors
    /// The errors of `body`, and every [`FenceError`].
    ///
    /// # Cancel safety
    /// If the future is dropped before the commit was sent, nothing is changed. If it is dropped later, the transaction
    /// may have been committed.
    pub async fn transaction<T, E, F>(self, fence: &Fence, body: F) -> Result<T, E>
    where
        E: From<FenceError>,
        F: AsyncFnOnce(&mut Transaction<'_>) -> Result<T, E>,
    {
        let mut transaction = begin(self.database, fence).await?;
        assert_and_check(transaction.client(), &self.assert, fence).await?;
        let value = body(&mut transaction).await?;
        commit(transaction, fence).await?;
        Ok(value)
    }
}

/// Creates the tables `distlock_fence` and `distlock_once`, if they do not exist.
///
/// # Errors
/// The error of the database.
pub async fn migrate(client: &Client) -> Result<(), Box<dyn error::Error + Send + Sync>> {
    Ok(client.batch_execute(statements::MAKE_IN_POSTGRES).await?)
}

type Parameter<'p> = (&'p (dyn ToSql + Sync), Type);

/// A parameter with its type: a statement whose types are known is one message. (Without them it is prepared first, at
/// the cost of one round trip each time, or two.)
fn text(value: &(dyn ToSql + Sync)) -> Parameter<'_> {
    (value, Type::TEXT)
}

fn number(value: &i64) -> Parameter<'_> {
    (value, Type::INT8)
}

/// When it is dropped, the transaction sends ROLLBACK before the next message of the client.
async fn begin<'c>(client: &'c mut Client, fence: &Fence) -> Result<Transaction<'c>, FenceError> {
    client.transaction().await.map_err(|error| FenceError::not_committed(fence, error))
}

pub(crate) async fn check(client: &Client, fence: &Fence) -> Result<(), FenceError> {
    let failed = |error| FenceError::not_committed(fence, error);
    let (key, token) = (fence.key(), signed(fence)?);
    let raised =
        client.query_typed_opt(statements::CHECK, &[text(&key), number(&token)]).await.map_err(failed)?;
    if raised.is_some() {
        return Ok(());
    }
    let newest = client.query_typed_one(statements::NEWEST, &[text(&key)]).await.map_err(failed)?;
    let newest = newest.try_get::<_, i64>(0).map_err(failed)?;
    Err(FenceError::stale(fence, newest.unsigned_abs()))
}

pub(crate) async fn assert_held(client: &Client, statement: &str, fence: &Fence) -> Result<(), FenceError> {
    let (key, token) = (fence.key(), signed(fence)?);
    let held = client.execute_typed(statement, &[text(&key), number(&token)]).await;
    held.map(drop).map_err(|error| {
        let code = error.code().cloned();
        asserted(code.as_ref().map(SqlState::code), fence, error)
    })
}

/// Both statements in one round trip: the client sends them in the order of the first polls. If the first one fails,
/// the server refuses the second one, because the transaction has failed.
pub(crate) async fn assert_and_check(
    client: &Client,
    statement: &str,
    fence: &Fence,
) -> Result<(), FenceError> {
    let (held, checked) = join(assert_held(client, statement, fence), check(client, fence)).await;
    held.and(checked)
}

async fn commit(transaction: Transaction<'_>, fence: &Fence) -> Result<(), FenceError> {
    commit_on(transaction.client(), fence).await?;
    // Dropped, it would send ROLLBACK, of which the server warns. It owns nothing.
    mem::forget(transaction);
    Ok(())
}

/// Commits the open transaction of this client, by one message.
pub(crate) async fn commit_on(client: &Client, fence: &Fence) -> Result<(), FenceError> {
    if client.is_closed() {
        return Err(FenceError::not_committed(fence, "the connection was closed before the commit was sent"));
    }
    let answer = client.batch_execute(statements::COMMIT_IF_GOOD).await;
    answer.map_err(|error| FenceError::of_commit(fence, is_refusal(&error), error))
}

#[cfg(feature = "once")]
pub(crate) async fn find(client: &Client, fence: &Fence) -> Result<Option<Stored>, FenceError> {
    let found = async {
        let row = client.query_typed_opt(POSTGRES.find, &[text(&fence.key())]).await?;
        row.map(|row| Ok(Stored { result: row.try_get(0)?, arguments: row.try_get(1)? })).transpose()
    };
    found.await.map_err(|error: Error| FenceError::not_committed(fence, error))
}

#[cfg(feature = "once")]
pub(crate) async fn store(
    client: &Client,
    fence: &Fence,
    Stored { result, arguments }: &Stored,
    keep: Duration,
) -> Result<(), FenceError> {
    let (key, token, keep) = (fence.key(), signed(fence)?, millis(keep));
    let row = [text(&key), text(result), (arguments, Type::BYTEA), number(&token), number(&keep)];
    stored(client.execute_typed(POSTGRES.store, &row).await, fence)
}

/// Whether the server has refused to commit. With FATAL it ends the connection, maybe after it has committed.
fn is_refusal(error: &Error) -> bool {
    error.as_db_error().is_some_and(|error| {
        error.parsed_severity() == Some(Severity::Error) && is_refused_by_postgres(error.code().code())
    })
}
