//! Transactions of `diesel-async` on PostgreSQL, on a connection of one's own or of a pool.
//!
//! ```
//! use diesel::prelude::*;
//! use diesel_async::{AsyncPgConnection, RunQueryDsl};
//! use distlock_fence::Fence;
//! # #[derive(Debug)] enum RedeemError { Fence(distlock_fence::FenceError), Database(diesel::result::Error) }
//! # impl From<distlock_fence::FenceError> for RedeemError {
//! #     fn from(error: distlock_fence::FenceError) -> Self { RedeemError::Fence(error) }
//! # }
//! # impl From<diesel::result::Error> for RedeemError {
//! #     fn from(error: diesel::result::Error) -> Self { RedeemError::Database(error) }
//! # }
//! diesel::table! {
//!     account (id) { id -> BigInt, points -> BigInt, }
//! }
//!
//! async fn redeem(
//!     connection: &mut AsyncPgConnection,
//!     fence: &Fence,
//!     user: i64,
//!     price: i64,
//! ) -> Result<(), RedeemError> {
//!     distlock_fence::diesel_async::transaction(fence, connection, async |connection| {
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

use diesel::result::{Error, QueryResult};
use diesel::sql_types::{BigInt, Text};
use diesel::{OptionalExtension, sql_query};
use diesel_async::{
    AnsiTransactionManager, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection, TransactionManager,
};

use crate::diesel::{Row, is_refusal};
use crate::{Fence, FenceError, signed, statements};

type Transactions = AnsiTransactionManager;

/// [`transaction`](crate::transaction) on a connection, or on one of a pool: the same order, the same promises, the
/// same errors. Inside of another transaction it is refused: what `body` does would be committed later, or never.
///
/// # Errors
/// Those of `body`, and each [`FenceError`]. Diesel tells few errors of a commit apart: more of them than with other
/// libraries are [`FenceError::OutcomeUnknown`].
///
/// # Cancel safety
/// Dropped before the commit was sent, nothing is changed, and dropped later, it may have been committed: but drop the
/// connection, too, with which the transaction ends. Pools do that. This function refuses such a connection.
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
    match done {
        Ok(value) => {
            commit(connection, fence).await?;
            Ok(value)
        }
        Err(error) => {
            roll_back(connection).await;
            Err(error)
        }
    }
}

/// Makes the table `distlock_fence`, if there is none.
///
/// # Errors
/// What the database said.
pub async fn migrate(connection: &mut AsyncPgConnection) -> Result<(), Box<dyn error::Error + Send + Sync>> {
    Ok(connection.batch_execute(statements::MAKE_IN_POSTGRES).await?)
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
    if let Err(error) = connection.batch_execute(statements::STILL_GOOD).await {
        roll_back(connection).await;
        return Err(FenceError::not_committed(fence, error));
    }
    Transactions::commit_transaction(connection).await.map_err(|error| match is_refusal(&error) {
        true => FenceError::not_committed(fence, error),
        false => FenceError::outcome_unknown(fence, error),
    })
}

async fn roll_back(connection: &mut AsyncPgConnection) {
    // If it fails, diesel gives the connection up.
    drop(Transactions::rollback_transaction(connection).await);
}
