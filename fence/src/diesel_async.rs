//! `diesel-async` on PostgreSQL. Its pools of `deadpool` are databases for [`transaction`](crate::transaction()) and
//! `once`. For your own connection, or a connection of another pool, use the functions of this module.
//!
//! ```
//! use diesel::prelude::*;
//! use diesel_async::pooled_connection::deadpool::Pool;
//! use diesel_async::{AsyncPgConnection, RunQueryDsl};
//! use distlock_fence::{Fence, FenceError, transaction};
//! # #[derive(Debug)] enum RedeemError { Fence(FenceError), Database(diesel::result::Error) }
//! # impl From<FenceError> for RedeemError { fn from(error: FenceError) -> Self { RedeemError::Fence(error) } }
//! # impl From<diesel::result::Error> for RedeemError {
//! #     fn from(error: diesel::result::Error) -> Self { RedeemError::Database(error) }
//! # }
//! diesel::table! {
//!     account (id) { id -> BigInt, points -> BigInt, }
//! }
//!
//! async fn redeem(
//!     pool: &Pool<AsyncPgConnection>,
//!     fence: &Fence,
//!     user: i64,
//!     price: i64,
//! ) -> Result<(), RedeemError> {
//!     transaction(fence, pool, async |connection| {
//!         diesel::update(account::table.find(user))
//!             .set(account::points.eq(account::points - price))
//!             .execute(connection)
//!             .await?;
//!         Ok(())
//!     })
//!     .await
//! }
//! ```

use std::error;
#[cfg(feature = "once")]
use std::time::Duration;

use diesel::result::{Error, QueryResult};
use diesel::sql_types::{BigInt, Text};
#[cfg(feature = "once")]
use diesel::sql_types::{Binary, Nullable};
use diesel::{OptionalExtension, sql_query};
use diesel_async::pooled_connection::AsyncDieselConnectionManager;
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::{
    AnsiTransactionManager, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection, TransactionManager,
};

#[cfg(feature = "once")]
use serde::{Serialize, de::DeserializeOwned};

#[cfg(feature = "once")]
use crate::diesel::StoredRow;
use crate::diesel::{Row, is_outermost, is_refusal, of_assertion};
use crate::pooled::Pooled;
use crate::{AssertHeld, Fence, FenceError, FencedDatabase, signed, statements};
#[cfg(feature = "once")]
use crate::{Done, Once, Outcome, Stored};

type Transactions = AnsiTransactionManager;

/// [`transaction`](crate::transaction()) on a connection: the same order, the same promises, the same errors. Inside
/// another transaction, it is refused, because the changes of `body` would be committed later, or never.
///
/// # Errors
/// The errors of `body`, and every [`FenceError`]. Diesel distinguishes few errors of a commit, so more errors are
/// [`FenceError::OutcomeUnknown`] than with other libraries.
///
/// # Cancel safety
/// If the future is dropped before the commit was sent, nothing is changed. If it is dropped later, the transaction may
/// have been committed. In both cases, drop the connection, too. That ends the transaction, and other transactions of
/// its key wait for it. (A pool drops the connection when it would be used again. With a pool of `deadpool`,
/// [`transaction`](crate::transaction()) drops it at once.)
pub async fn transaction<T, E, F>(fence: &Fence, connection: &mut AsyncPgConnection, body: F) -> Result<T, E>
where
    E: From<FenceError>,
    F: AsyncFnOnce(&mut AsyncPgConnection) -> Result<T, E>,
{
    begin(connection).await.map_err(|error| FenceError::not_committed(fence, error))?;
    let done = match check(connection, fence).await {
        Ok(()) => body(connection).await,
        Err(error) => Err(error.into()),
    };
    end(connection, fence, done).await
}

/// [`once`](crate::once()) on a connection: the same order, promises and errors as [`transaction`].
///
/// # Errors
/// The errors of `body`, and every [`FenceError`].
///
/// # Cancel safety
/// The same as for [`transaction`]. The next call finds out whether it was committed.
#[cfg(feature = "once")]
pub async fn once<T, E, F>(
    fence: &Fence,
    connection: &mut AsyncPgConnection,
    once: &Once,
    body: F,
) -> Result<Done<T>, E>
where
    T: Serialize + DeserializeOwned,
    E: From<FenceError>,
    F: AsyncFnOnce(&mut AsyncPgConnection) -> Result<T, E>,
{
    let arguments = once.digest(fence)?;
    // One query, without a transaction, for requests that are repeated.
    if let Some(stored) = find(connection, fence).await? {
        return Ok(stored.replay(fence, arguments.as_deref())?);
    }
    begin(connection).await.map_err(|error| FenceError::not_committed(fence, error))?;
    let done = async {
        check(connection, fence).await?;
        // An earlier holder may have committed since then: the check of the fence has waited for it.
        if let Some(stored) = find(connection, fence).await? {
            return Ok(stored.replay(fence, arguments.as_deref())?);
        }
        let value = body(connection).await?;
        let stored = Stored::new(&value, arguments, fence)?;
        store(connection, fence, &stored, once.keep()).await?;
        Ok(Done { value, outcome: Outcome::FirstRun })
    };
    match done.await {
        Ok(replay) if replay.outcome.is_replay() => {
            drop(roll_back(connection).await);
            Ok(replay)
        }
        done => end(connection, fence, done).await,
    }
}

/// Deletes expired results, and returns their number. Call it in a job that runs now and then.
///
/// # Errors
/// The error of the database.
#[cfg(feature = "once")]
pub async fn prune(connection: &mut AsyncPgConnection) -> Result<u64, Box<dyn error::Error + Send + Sync>> {
    Ok(u64::try_from(sql_query(crate::once_statements::POSTGRES.prune).execute(connection).await?)?)
}

/// Creates the tables `distlock_fence` and `distlock_once`, if they do not exist.
///
/// # Errors
/// The error of the database.
pub async fn migrate(connection: &mut AsyncPgConnection) -> Result<(), Box<dyn error::Error + Send + Sync>> {
    Ok(connection.batch_execute(statements::MAKE_IN_POSTGRES).await?)
}

impl FencedDatabase for Pool<AsyncPgConnection> {
    type Connection = AsyncPgConnection;
    type Transaction = Pooled<AsyncDieselConnectionManager<AsyncPgConnection>>;

    async fn begin(&self, fence: &Fence) -> Result<Self::Transaction, FenceError> {
        let object = self.get().await.map_err(|error| FenceError::not_committed(fence, error))?;
        let mut transaction = Pooled::new(object);
        begin(&mut transaction).await.map_err(|error| FenceError::not_committed(fence, error))?;
        Ok(transaction)
    }

    async fn fence(&self, transaction: &mut Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
        check(transaction, fence).await
    }

    async fn commit(mut transaction: Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
        commit(&mut transaction, fence).await?;
        transaction.give_back();
        Ok(())
    }

    async fn roll_back(mut transaction: Self::Transaction) {
        if roll_back(&mut transaction).await.is_ok() {
            transaction.give_back();
        }
    }

    async fn migrate(&self) -> Result<(), Box<dyn error::Error + Send + Sync>> {
        let mut connection = self.get().await?;
        migrate(&mut connection).await
    }
}

impl AssertHeld for Pool<AsyncPgConnection> {
    async fn assert_held(
        transaction: &mut Self::Transaction,
        statement: &str,
        fence: &Fence,
    ) -> Result<(), FenceError> {
        let assert = sql_query(statement).bind::<Text, _>(fence.key()).bind::<BigInt, _>(signed(fence)?);
        let held = assert.execute(&mut **transaction).await;
        held.map(drop).map_err(|error| of_assertion(fence, error))
    }
}

#[cfg(feature = "once")]
impl crate::OnceDatabase for Pool<AsyncPgConnection> {
    async fn find(&self, fence: &Fence) -> Result<Option<Stored>, FenceError> {
        let mut object = self.get().await.map_err(|error| FenceError::not_committed(fence, error))?;
        find(&mut object, fence).await
    }

    async fn find_in(
        &self,
        transaction: &mut Self::Transaction,
        fence: &Fence,
    ) -> Result<Option<Stored>, FenceError> {
        find(transaction, fence).await
    }

    async fn store(
        transaction: &mut Self::Transaction,
        fence: &Fence,
        stored: &Stored,
        keep: Duration,
    ) -> Result<(), FenceError> {
        store(transaction, fence, stored, keep).await
    }

    async fn prune(&self) -> Result<u64, Box<dyn error::Error + Send + Sync>> {
        prune(&mut *self.get().await?).await
    }
}

#[cfg(feature = "once")]
async fn find(connection: &mut AsyncPgConnection, fence: &Fence) -> Result<Option<Stored>, FenceError> {
    let find = sql_query(crate::once_statements::POSTGRES.find).bind::<Text, _>(fence.key());
    let found = find.get_result::<StoredRow>(connection).await.optional();
    found.map(|row| row.map(Into::into)).map_err(|error| FenceError::not_committed(fence, error))
}

#[cfg(feature = "once")]
async fn store(
    connection: &mut AsyncPgConnection,
    fence: &Fence,
    stored: &Stored,
    keep: Duration,
) -> Result<(), FenceError> {
    let store = sql_query(crate::once_statements::POSTGRES.store)
        .bind::<Text, _>(fence.key())
        .bind::<Text, _>(&stored.result)
        .bind::<Nullable<Binary>, _>(stored.arguments.as_deref())
        .bind::<BigInt, _>(signed(fence)?)
        .bind::<BigInt, _>(crate::once_statements::millis(keep));
    crate::once_statements::stored(store.execute(connection).await, fence)
}

async fn begin(connection: &mut AsyncPgConnection) -> QueryResult<()> {
    if Transactions::transaction_manager_status_mut(connection).transaction_depth()?.is_some() {
        return Err(Error::AlreadyInTransaction);
    }
    Transactions::begin_transaction(connection).await
}

async fn check(connection: &mut AsyncPgConnection, fence: &Fence) -> Result<(), FenceError> {
    let failed = |error| FenceError::not_committed(fence, error);
    let key = fence.key();
    let raise = sql_query(statements::CHECK).bind::<Text, _>(key).bind::<BigInt, _>(signed(fence)?);
    if raise.get_result::<Row>(connection).await.optional().map_err(failed)?.is_some() {
        return Ok(());
    }
    let newest = sql_query(statements::NEWEST).bind::<Text, _>(key);
    let newest = newest.get_result::<Row>(connection).await.map_err(failed)?;
    Err(FenceError::stale(fence, newest.token.unsigned_abs()))
}

async fn commit(connection: &mut AsyncPgConnection, fence: &Fence) -> Result<(), FenceError> {
    let still_good = match is_outermost(Transactions::transaction_manager_status_mut(connection), fence) {
        Ok(()) => match connection.batch_execute(statements::STILL_GOOD).await {
            Ok(()) => Ok(()),
            Err(error) => {
                // A transaction that has failed, or a connection that has broken, refuses every statement. If this one
                // succeeds, the body has ended the transaction, and later statements may have been committed.
                let is_refusal = connection.batch_execute("SELECT 1").await.is_err();
                Err(FenceError::of_commit(fence, is_refusal, error))
            }
        },
        left_behind => left_behind,
    };
    if still_good.is_err() {
        drop(roll_back(connection).await);
        return still_good;
    }
    Transactions::commit_transaction(connection)
        .await
        .map_err(|error| FenceError::of_commit(fence, is_refusal(&error), error))
}

/// Commits if `done` is `Ok`, and rolls back otherwise.
async fn end<T, E: From<FenceError>>(
    connection: &mut AsyncPgConnection,
    fence: &Fence,
    done: Result<T, E>,
) -> Result<T, E> {
    match done {
        Ok(value) => {
            commit(connection, fence).await?;
            Ok(value)
        }
        Err(error) => {
            drop(roll_back(connection).await);
            Err(error)
        }
    }
}

/// Rolls back, with savepoints that the body has left in front, even one that is gone: each call is one level less. If
/// the last one fails, diesel gives the connection up.
async fn roll_back(connection: &mut AsyncPgConnection) -> QueryResult<()> {
    while Transactions::transaction_manager_status_mut(connection).transaction_depth()?.is_some() {
        drop(Transactions::rollback_transaction(connection).await);
    }
    Ok(())
}
