//! The pools of `mysql_async`, for MySQL and MariaDB.

use std::error;
use std::ops::{Deref, DerefMut};

use mysql_async::prelude::Queryable;
use mysql_async::{Error, Pool, TxOpts};

use crate::begun::Begun;
#[cfg(feature = "once")]
use crate::once_statements::{MYSQL, millis};
use crate::{Fence, FenceError, FencedDatabase, schema, signed, statements};

/// A transaction of `mysql_async`: the argument of a section's body. (With the lifetime in the type, the compiler could
/// not see that the future of the section is `Send`.)
#[derive(Debug)]
pub struct Transaction(mysql_async::Transaction<'static>);

impl Deref for Transaction {
    type Target = mysql_async::Transaction<'static>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl FencedDatabase for Pool {
    type Connection = Transaction;
    type Transaction = Begun<Transaction>;

    async fn begin(&self, fence: &Fence) -> Result<Self::Transaction, FenceError> {
        let begun = self.start_transaction(TxOpts::default()).await;
        let begun = begun.map(|begun| Begun::new(Transaction(begun), drop));
        begun.map_err(|error| FenceError::not_committed(fence, error))
    }

    async fn fence(&self, transaction: &mut Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
        let failed = |error| FenceError::not_committed(fence, error);
        let (key, token) = (fence.key(), signed(fence)?);
        let raise = statements::raise_and_mark_in_mysql(key, token);
        transaction.query_drop(raise).await.map_err(failed)?;
        let newest =
            transaction.exec_first::<i64, _, _>(statements::NEWEST_IN_MYSQL, (key.as_bytes(),)).await;
        match newest.map_err(failed)? {
            Some(newest) if newest > token => Err(FenceError::stale(fence, newest.unsigned_abs())),
            Some(_) => Ok(()),
            None => Err(FenceError::not_committed(fence, "the row that was written is missing")),
        }
    }

    async fn commit(mut transaction: Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
        // Dropped, it is rolled back by the pool, which then has no effect.
        let committed = transaction.query_drop(statements::COMMIT_IF_OPEN).await;
        committed.map_err(|error| FenceError::of_commit(fence, is_refusal(&error), error))
    }

    async fn roll_back(transaction: Self::Transaction) {
        // The connection has broken: the server rolls back.
        drop(transaction.into_inner().0.rollback().await);
    }

    async fn migrate(&self) -> Result<(), Box<dyn error::Error + Send + Sync>> {
        Ok(self.get_conn().await?.query_drop(schema::MYSQL).await?)
    }
}

#[cfg(feature = "once")]
impl crate::OnceDatabase for Pool {
    async fn find(&self, fence: &Fence) -> Result<Option<crate::Stored>, FenceError> {
        let connection = self.get_conn().await;
        let mut connection = connection.map_err(|error| FenceError::not_committed(fence, error))?;
        find(&mut connection, MYSQL.find_committed, fence).await
    }

    async fn find_in(
        &self,
        transaction: &mut Self::Transaction,
        fence: &Fence,
    ) -> Result<Option<crate::Stored>, FenceError> {
        find(&mut ***transaction, MYSQL.find, fence).await
    }

    async fn store(
        transaction: &mut Self::Transaction,
        fence: &Fence,
        stored: &crate::Stored,
        keep: std::time::Duration,
    ) -> Result<(), FenceError> {
        let open = transaction.query_drop(statements::STILL_OPEN).await;
        open.map_err(|error| FenceError::outcome_unknown(fence, error))?;
        let (key, token, keep) = (fence.key().as_bytes(), signed(fence)?, millis(keep));
        let row = (key, &stored.result, &stored.arguments, token, keep);
        let store = transaction.exec_drop(MYSQL.store, row).await;
        store.map_err(|error| FenceError::not_committed(fence, error))
    }

    async fn prune(&self) -> Result<u64, Box<dyn error::Error + Send + Sync>> {
        let mut connection = self.get_conn().await?;
        connection.query_drop(MYSQL.prune).await?;
        Ok(connection.affected_rows())
    }
}

#[cfg(feature = "once")]
async fn find(
    queryable: &mut impl Queryable,
    statement: &str,
    fence: &Fence,
) -> Result<Option<crate::Stored>, FenceError> {
    let find = queryable.exec_first(statement, (fence.key().as_bytes(),)).await;
    let row: Option<(String, Option<Vec<u8>>)> =
        find.map_err(|error| FenceError::not_committed(fence, error))?;
    Ok(row.map(|(result, arguments)| crate::Stored { result, arguments }))
}

/// Whether the server has refused to commit: by SQLSTATE class 40, the transaction was rolled back. Other errors also
/// come when a statement is interrupted or the server ends, maybe after it has committed.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Server(error) if error.state.starts_with("40"))
}
