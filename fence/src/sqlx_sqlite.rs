//! The pools of `sqlx` for SQLite.

use std::error::Error;

use sqlx::sqlite::SqliteTransactionManager;
use sqlx::{Executor, Sqlite, SqliteConnection, SqlitePool, Transaction, TransactionManager};

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
        let begun = async {
            let mut connection = self.acquire().await?;
            // If SQLite has rolled back by itself, the ROLLBACK of `sqlx` has failed, so it still counts a transaction.
            // It would begin a nested one, whose COMMIT may be none. With these savepoints (of 0.8) it counts down.
            for depth in (0..SqliteTransactionManager::get_transaction_depth(&connection)).rev() {
                connection.execute(format!("SAVEPOINT _sqlx_savepoint_{depth}").as_str()).await?;
                SqliteTransactionManager::rollback(&mut connection).await?;
            }
            Transaction::begin(connection, None).await
        };
        begun.await.map_err(|error: sqlx::Error| FenceError::not_committed(fence, error))
    }

    async fn fence(&self, transaction: &mut Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
        let marked = (&mut **transaction).execute(statements::MARK).await;
        marked.map_err(|error| FenceError::not_committed(fence, error))?;
        check!(transaction, fence)
    }

    async fn commit(mut transaction: Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
        let committed = match (&mut *transaction).execute(statements::STILL_OPEN).await {
            Ok(_) => transaction.commit().await,
            Err(error) => Err(error),
        };
        committed.map_err(|error| FenceError::of_commit(fence, is_refusal(&error), error))
    }

    async fn roll_back(transaction: Self::Transaction) {
        // If it fails, SQLite has rolled back by itself.
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
