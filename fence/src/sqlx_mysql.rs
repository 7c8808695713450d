//! The pools of `sqlx` for MySQL and MariaDB.

use std::error::Error;

use sqlx::{Executor, MySql, MySqlConnection, MySqlPool, Transaction};

use crate::completed::begun;
use crate::{Fence, FenceError, FencedDatabase, schema, signed, statements};

impl FencedDatabase for MySqlPool {
    type Connection = MySqlConnection;
    type Transaction = Transaction<'static, MySql>;

    async fn begin(&self, fence: &Fence) -> Result<Self::Transaction, FenceError> {
        let begun = begun(self, Some(statements::BEGIN_MARKED_IN_MYSQL)).await;
        begun.map_err(|error| FenceError::not_committed(fence, error))
    }

    async fn fence(&self, transaction: &mut Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
        let failed = |error| FenceError::not_committed(fence, error);
        let token = signed(fence)?;
        let key = fence.key().as_bytes();
        let raise = sqlx::query(statements::RAISE_IN_MYSQL).bind(key).bind(token);
        raise.execute(&mut **transaction).await.map_err(failed)?;
        let newest = sqlx::query_scalar::<_, i64>(statements::NEWEST_IN_MYSQL).bind(key);
        let newest = newest.fetch_one(&mut **transaction).await.map_err(failed)?;
        if newest > token { Err(FenceError::stale(fence, newest.unsigned_abs())) } else { Ok(()) }
    }

    async fn commit(mut transaction: Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
        // Dropped, it sends ROLLBACK, which then has no effect.
        let committed = (&mut *transaction).execute(statements::COMMIT_IF_OPEN).await;
        committed.map(drop).map_err(|error| FenceError::of_commit(fence, is_refusal(&error), error))
    }

    async fn roll_back(transaction: Self::Transaction) {
        // The connection has broken: the server rolls back.
        drop(transaction.rollback().await);
    }

    async fn migrate(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        sqlx::raw_sql(schema::MYSQL).execute(self).await?;
        Ok(())
    }
}

/// Whether the server has refused to commit: by SQLSTATE class 40, the transaction was rolled back. Other errors also
/// come when a statement is interrupted or the server ends, maybe after it has committed.
pub(crate) fn is_refusal(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    code.is_some_and(|code| code.starts_with("40"))
}
