//! The pools of `sqlx` for PostgreSQL.

use std::borrow::Cow;
use std::error::Error;

use futures_util::TryStreamExt;
use sqlx::postgres::{PgDatabaseError, PgSeverity};
use sqlx::{PgConnection, PgPool, Postgres, Transaction};

use crate::completed::begun;
use crate::error::is_refused_by_postgres;
use crate::same_database::asserted;
use crate::sqlx_check::check;
use crate::{AssertHeld, Fence, FenceError, FencedDatabase, signed, statements};

impl FencedDatabase for PgPool {
    type Connection = PgConnection;
    type Transaction = Transaction<'static, Postgres>;

    async fn begin(&self, fence: &Fence) -> Result<Self::Transaction, FenceError> {
        begun(self, None).await.map_err(|error| FenceError::not_committed(fence, error))
    }

    async fn fence(&self, transaction: &mut Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
        check!(transaction, fence)
    }

    async fn commit(mut transaction: Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
        let mut answers = sqlx::raw_sql(statements::COMMIT_AND_BEGIN).execute_many(&mut *transaction);
        // Reads the answers to SAVEPOINT and COMMIT. If BEGIN fails after them, the transaction was committed, and the
        // pool closes the connection.
        for _ in 0..2 {
            let answer = answers.try_next().await;
            answer.map_err(|error| FenceError::of_commit(fence, is_refusal(&error), error))?;
        }
        Ok(())
    }

    async fn roll_back(transaction: Self::Transaction) {
        // The connection has broken: the server rolls back.
        drop(transaction.rollback().await);
    }

    async fn migrate(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        sqlx::raw_sql(statements::MAKE_IN_POSTGRES).execute(self).await?;
        Ok(())
    }
}

impl AssertHeld for PgPool {
    async fn assert_held(
        transaction: &mut Self::Transaction,
        statement: &str,
        fence: &Fence,
    ) -> Result<(), FenceError> {
        let assert = sqlx::query(statement).bind(fence.key()).bind(signed(fence)?);
        let held = assert.execute(&mut **transaction).await;
        held.map(drop).map_err(|error| of_assertion(fence, error))
    }
}

/// The meaning of an assertion's error.
pub(crate) fn of_assertion(fence: &Fence, error: sqlx::Error) -> FenceError {
    let code = error.as_database_error().and_then(|error| error.code()).map(Cow::into_owned);
    asserted(code.as_deref(), fence, error)
}

/// Whether the server has refused to commit. With FATAL it ends the connection, maybe after it has committed.
pub(crate) fn is_refusal(error: &sqlx::Error) -> bool {
    let refused = error.as_database_error().and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    refused.is_some_and(|error| error.severity() == PgSeverity::Error && is_refused_by_postgres(error.code()))
}
