//! The pools of `sqlx` for SQLite.

use std::error::Error;

use sqlx::{Executor, Sqlite, SqliteConnection, SqlitePool, Transaction};

use crate::sqlx_check::check;
use crate::{Fence, FenceError, FencedDatabase, schema, signed, statements};

/// SQLITE_ERROR: the transaction had ended before, and later statements may have been committed.
const NO_TRANSACTION: i32 = 1;
/// SQLITE_IOERR: whether the commit has reached the disk is not known.
const IO_ERROR: i32 = 10;

impl FencedDatabase for SqlitePool {
    type Connection = SqliteConnection;
    type Transaction = Transaction<'static, Sqlite>;

    async fn begin(&self, fence: &Fence) -> Result<Self::Transaction, FenceError> {
        SqlitePool::begin(self).await.map_err(|error| FenceError::not_committed(fence, error))
    }

    async fn fence(&self, transaction: &mut Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
        let marked = (&mut **transaction).execute(statements::MARK).await;
        marked.map_err(|error| FenceError::not_committed(fence, error))?;
        check!(transaction, fence)
    }

    async fn commit(transaction: Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
        transaction.commit().await.map_err(|error| FenceError::of_commit(fence, is_refusal(&error), error))
    }

    async fn roll_back(transaction: Self::Transaction) {
        // The connection is closed then, and with it the transaction.
        drop(transaction.rollback().await);
    }

    async fn migrate(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        sqlx::raw_sql(schema::SQLITE).execute(self).await?;
        Ok(())
    }
}

/// Whether SQLite has refused to commit. The lower byte of its codes says which kind of error it is.
pub(crate) fn is_refusal(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<i32>().ok());
    code.is_some_and(|code| !matches!(code & 0xff, NO_TRANSACTION | IO_ERROR))
}
