//! Transactions of `tokio-postgres`, on a client of one's own or of a pool. (The pools of `deadpool-postgres` are
//! databases for [`transaction`](crate::transaction()) and `once`, too: feature `deadpool-postgres`.)
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

use std::error;

use tokio_postgres::error::Severity;
use tokio_postgres::{Client, Error, Transaction};

use crate::{Fence, FenceError, signed, statements};

/// [`transaction`](crate::transaction()) on a client: the same order, the same promises, the same errors.
///
/// # Errors
/// Those of `body`, and each [`FenceError`].
///
/// # Cancel safety
/// Dropped before the commit was sent, nothing was changed. Dropped later, it may have been committed.
pub async fn transaction<T, E, F>(fence: &Fence, client: &mut Client, body: F) -> Result<T, E>
where
    E: From<FenceError>,
    F: AsyncFnOnce(&mut Transaction<'_>) -> Result<T, E>,
{
    let begun = client.transaction().await;
    let mut transaction = begun.map_err(|error| FenceError::not_committed(fence, error))?;
    // Dropped, it sends ROLLBACK before whatever the client sends next.
    check(transaction.client(), fence).await?;
    let value = body(&mut transaction).await?;
    commit(transaction, fence).await?;
    Ok(value)
}

/// Makes the tables `distlock_fence` and `distlock_once`, if there are none.
///
/// # Errors
/// What the database said.
pub async fn migrate(client: &Client) -> Result<(), Box<dyn error::Error + Send + Sync>> {
    Ok(client.batch_execute(statements::MAKE_IN_POSTGRES).await?)
}

pub(crate) async fn check(client: &Client, fence: &Fence) -> Result<(), FenceError> {
    let failed = |error| FenceError::not_committed(fence, error);
    let key = fence.key();
    let raised = client.query_opt(statements::CHECK, &[&key, &signed(fence)?]).await.map_err(failed)?;
    if raised.is_some() {
        return Ok(());
    }
    let newest = client.query_one(statements::NEWEST, &[&key]).await.map_err(failed)?;
    let newest = newest.try_get::<_, i64>(0).map_err(failed)?;
    Err(FenceError::stale(fence, newest.unsigned_abs()))
}

async fn commit(transaction: Transaction<'_>, fence: &Fence) -> Result<(), FenceError> {
    let still_good = transaction.batch_execute(statements::STILL_GOOD).await;
    still_good.map_err(|error| FenceError::not_committed(fence, error))?;
    committed(transaction.commit().await, fence)
}

/// What the answer to the commit says.
pub(crate) fn committed(answer: Result<(), Error>, fence: &Fence) -> Result<(), FenceError> {
    answer.map_err(|error| FenceError::of_commit(fence, is_refusal(&error), error))
}

/// Whether the server has refused to commit. With FATAL it ends the connection, maybe after it has committed.
fn is_refusal(error: &Error) -> bool {
    error.as_db_error().is_some_and(|error| error.parsed_severity() == Some(Severity::Error))
}
