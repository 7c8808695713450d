//! Transactions of `rusqlite`, which block: inside an async function call them in `spawn_blocking`.
//!
//! ```
//! use distlock_fence::Fence;
//! # #[derive(Debug)] enum RedeemError { Fence(distlock_fence::FenceError), Database(rusqlite::Error) }
//! # impl From<distlock_fence::FenceError> for RedeemError {
//! #     fn from(error: distlock_fence::FenceError) -> Self { RedeemError::Fence(error) }
//! # }
//! # impl From<rusqlite::Error> for RedeemError {
//! #     fn from(error: rusqlite::Error) -> Self { RedeemError::Database(error) }
//! # }
//!
//! fn redeem(
//!     connection: &mut rusqlite::Connection,
//!     fence: &Fence,
//!     user: i64,
//!     price: i64,
//! ) -> Result<(), RedeemError> {
//!     distlock_fence::rusqlite::transaction(fence, connection, |tx| {
//!         tx.execute("UPDATE account SET points = points - ?1 WHERE id = ?2", [price, user])?;
//!         Ok(())
//!     })
//! }
//! ```

use std::error;

use rusqlite::{Connection, Error, ErrorCode, OptionalExtension, Transaction, params};

use crate::{Fence, FenceError, schema, signed, statements};

/// [`transaction`](crate::transaction) on a connection: the same order, the same promises, the same errors.
///
/// # Errors
/// Those of `body`, and each [`FenceError`].
pub fn transaction<T, E, F>(fence: &Fence, connection: &mut Connection, body: F) -> Result<T, E>
where
    E: From<FenceError>,
    F: FnOnce(&Transaction<'_>) -> Result<T, E>,
{
    let begun = connection.transaction();
    // Dropped, it rolls back.
    let transaction = begun.map_err(|error| FenceError::not_committed(fence, error))?;
    check(&transaction, fence)?;
    let value = body(&transaction)?;
    transaction.commit().map_err(|error| match is_refusal(&error) {
        true => FenceError::not_committed(fence, error),
        false => FenceError::outcome_unknown(fence, error),
    })?;
    Ok(value)
}

/// Makes the table `distlock_fence`, if there is none.
///
/// # Errors
/// What the database said.
pub fn migrate(connection: &Connection) -> Result<(), Box<dyn error::Error + Send + Sync>> {
    Ok(connection.execute_batch(schema::SQLITE)?)
}

fn check(transaction: &Transaction<'_>, fence: &Fence) -> Result<(), FenceError> {
    let failed = |error| FenceError::not_committed(fence, error);
    let given = params![fence.key(), signed(fence)?];
    let raised = transaction.query_row(statements::CHECK, given, |row| row.get::<_, i64>(0)).optional();
    if raised.map_err(failed)?.is_some() {
        return Ok(());
    }
    let newest = transaction.query_row(statements::NEWEST, [fence.key()], |row| row.get::<_, i64>(0));
    Err(FenceError::stale(fence, newest.map_err(failed)?.unsigned_abs()))
}

/// Whether SQLite has refused to commit. After an I/O error it is not known whether the commit has reached the disk.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::SqliteFailure(error, _) if error.code != ErrorCode::SystemIoFailure)
}
