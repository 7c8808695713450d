//! The order of the steps of a fenced transaction.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::{Fence, FenceError, FencedDatabase};

/// An open transaction with a checked fence. Other transactions of the same key wait for its end.
///
/// If it is dropped before [`commit`](FencedTransaction::commit), it is rolled back. It dereferences to the transaction
/// of the database's library. [`transaction`] is shorter and does the steps in order. Use this type if the body is not
/// a closure.
///
/// ```
/// # #[cfg(feature = "sqlx-postgres")] mod example {
/// use distlock_fence::{Fence, FenceError, FencedTransaction};
/// # #[derive(Debug)] enum RedeemError { Fence(FenceError), Database(sqlx::Error) }
/// # impl From<FenceError> for RedeemError { fn from(error: FenceError) -> Self { RedeemError::Fence(error) } }
/// # impl From<sqlx::Error> for RedeemError { fn from(error: sqlx::Error) -> Self { RedeemError::Database(error) } }
///
/// async fn redeem(pool: &sqlx::PgPool, fence: &Fence, user: i64, price: i64) -> Result<(), RedeemError> {
///     let mut tx = FencedTransaction::begin(fence, pool).await?;
///     let sql = "UPDATE account SET points = points - $1 WHERE id = $2";
///     sqlx::query(sql).bind(price).bind(user).execute(&mut **tx).await?;
///     Ok(tx.commit().await?)
/// }
/// # }
/// ```
pub struct FencedTransaction<D: FencedDatabase> {
    transaction: D::Transaction,
    fence: Fence,
}

impl<D: FencedDatabase> FencedTransaction<D> {
    /// Begins a transaction and checks the fence.
    ///
    /// # Errors
    /// [`FenceError::Stale`] if a later holder of the key has committed; [`FenceError::NotCommitted`] if the database
    /// fails.
    ///
    /// # Cancel safety
    /// Cancel-safe: an open transaction is rolled back. With `sqlx` and `sea-orm` on PostgreSQL and MySQL, this needs
    /// tokio: a task on the runtime of the caller receives the reply to BEGIN, and rolls back. On another runtime, the
    /// pool may get the connection back with an open transaction.
    pub async fn begin(fence: &Fence, database: &D) -> Result<Self, FenceError> {
        let transaction = database.begin_fenced(fence).await?;
        Ok(FencedTransaction { transaction, fence: fence.clone() })
    }

    /// The fence that was checked.
    #[must_use]
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Commits.
    ///
    /// # Errors
    /// [`FenceError::NotCommitted`], and [`FenceError::OutcomeUnknown`] if the reply was lost.
    ///
    /// # Cancel safety
    /// If the future is dropped before the first poll, nothing is changed. If it is dropped later, the transaction may
    /// have been committed.
    pub async fn commit(self) -> Result<(), FenceError> {
        D::commit(self.transaction, &self.fence).await
    }

    /// Commits if `result` is `Ok`, and rolls back otherwise. Returns it.
    ///
    /// # Errors
    /// The errors of [`commit`](FencedTransaction::commit).
    ///
    /// # Cancel safety
    /// The same as for [`commit`](FencedTransaction::commit).
    pub async fn end<T, E>(self, result: Result<T, E>) -> Result<Result<T, E>, FenceError> {
        if result.is_ok() {
            self.commit().await?;
        } else {
            self.roll_back().await;
        }
        Ok(result)
    }

    /// Rolls back. If this fails, the server rolls back when it notices that the connection has ended.
    pub async fn roll_back(self) {
        D::roll_back(self.transaction).await;
    }
}

impl<D: FencedDatabase> Deref for FencedTransaction<D> {
    type Target = D::Transaction;

    fn deref(&self) -> &D::Transaction {
        &self.transaction
    }
}

impl<D: FencedDatabase> DerefMut for FencedTransaction<D> {
    fn deref_mut(&mut self) -> &mut D::Transaction {
        &mut self.transaction
    }
}

impl<D: FencedDatabase> fmt::Debug for FencedTransaction<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedTransaction").field("fence", &self.fence).finish_non_exhaustive()
    }
}

/// Begins a transaction, checks the fence, calls `body`, and commits if it returns `Ok`.
///
/// The transaction is rolled back if the fence is stale (`body` is then not called), or if `body` returns an error,
/// panics, or is dropped. Transactions of one key are committed in the order of their tokens: the check locks the row
/// of the key until the transaction ends, and a holder that was overtaken is refused with [`FenceError::Stale`].
/// Several transactions may have the same token.
///
/// `body` must return the errors of its statements. After some errors, a database has already rolled back the
/// transaction, and MySQL and SQLite then execute each further statement outside a transaction. If `body` hides such an
/// error, PostgreSQL commits nothing ([`FenceError::NotCommitted`]), and with MySQL and SQLite the caller gets
/// [`FenceError::OutcomeUnknown`]. The caller also gets it if `body` continues after a nested `begin` of `sqlx` or
/// `sea-orm` that has failed or was dropped: these libraries may then roll back the whole transaction. And inside a
/// nested transaction, they then count one level too few: its `commit` may commit the whole transaction, even if `body`
/// returns an error afterwards. So return the error of a nested `begin`, and commit nothing after it.
///
/// `body` must not end the transaction with its own statements. (If it does, the caller gets
/// [`FenceError::OutcomeUnknown`].) On MySQL, it must not change the definition of a table, because that commits the
/// transaction.
///
/// # Errors
/// The errors of `body`, and every [`FenceError`].
///
/// # Cancel safety
/// If the future is dropped before the commit was sent, nothing is changed. If it is dropped later, the transaction may
/// have been committed.
pub async fn transaction<D, T, E, F>(fence: &Fence, database: &D, body: F) -> Result<T, E>
where
    D: FencedDatabase,
    E: From<FenceError>,
    F: AsyncFnOnce(&mut D::Connection) -> Result<T, E>,
{
    let mut transaction = FencedTransaction::begin(fence, database).await?;
    let result = body(&mut transaction).await;
    transaction.end(result).await?
}
