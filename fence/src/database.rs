//! What a fenced transaction needs of a database, and the order of its steps.

use std::error::Error;
use std::future::Future;
use std::ops::DerefMut;

use crate::{Fence, FenceError};

/// A database, by a pool of connections, whose transactions can be fenced.
///
/// Implemented for the pools of `sqlx`: features `sqlx-postgres`, `sqlx-mysql` and `sqlx-sqlite`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a database whose transactions can be fenced",
    label = "expected a pool of connections",
    note = "turn on the feature of distlock-fence for it: `sqlx-postgres`, `sqlx-mysql` or `sqlx-sqlite`"
)]
pub trait FencedDatabase {
    /// What the body of a transaction sends its statements to. It has no lifetime: in an async closure the compiler
    /// could not see that a future with one is `Send`.
    type Connection: Send;

    /// A transaction. If it is dropped before it was committed, it is rolled back.
    type Transaction: DerefMut<Target = Self::Connection> + Send + 'static;

    /// Begins a transaction.
    fn begin(&self, fence: &Fence) -> impl Future<Output = Result<Self::Transaction, FenceError>> + Send;

    /// Raises the stored token of the key to that of `fence`, and keeps others from doing so until the transaction
    /// ends.
    ///
    /// # Errors
    /// [`FenceError::Stale`] if a larger token is stored; [`FenceError::NotCommitted`] if the database fails.
    fn fence(
        transaction: &mut Self::Transaction,
        fence: &Fence,
    ) -> impl Future<Output = Result<(), FenceError>> + Send;

    /// Commits.
    ///
    /// # Errors
    /// [`FenceError::NotCommitted`] only if it is certain that nothing was committed; else
    /// [`FenceError::OutcomeUnknown`].
    fn commit(
        transaction: Self::Transaction,
        fence: &Fence,
    ) -> impl Future<Output = Result<(), FenceError>> + Send;

    /// Rolls back. If that fails, the server does it when it notices that the connection has ended.
    fn roll_back(transaction: Self::Transaction) -> impl Future<Output = ()> + Send;

    /// Makes the table `distlock_fence`, if there is none.
    ///
    /// # Errors
    /// What the database said.
    fn migrate(&self) -> impl Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send;
}

/// Makes the table `distlock_fence`, if there is none. Its definition, to be pasted into migrations of one's own:
/// [`schema`](crate::schema).
///
/// # Errors
/// What the database said.
pub async fn migrate<D: FencedDatabase>(database: &D) -> Result<(), Box<dyn Error + Send + Sync>> {
    database.migrate().await
}

/// Begins a transaction, checks the fence, calls `body`, and commits if it returns `Ok`.
///
/// The transaction is rolled back if the fence is stale (then `body` is not called), and if `body` returns an error,
/// panics, or is dropped. Transactions of one key are committed in the order of their tokens: the check holds the row
/// of the key until the end, and a holder that was overtaken is refused with [`FenceError::Stale`]. Several
/// transactions may have the same token.
///
/// `body` must return the errors of its statements: after some of them, a database has rolled back the transaction by
/// itself, and MySQL and SQLite carry out each further statement alone. It must not end the transaction with statements
/// of its own, nor have MySQL do so by changing tables.
///
/// # Errors
/// Those of `body`, and each [`FenceError`].
///
/// # Cancel safety
/// Dropped before the commit was sent, nothing was changed. Dropped later, it may have been committed.
pub async fn transaction<D, T, E, F>(fence: &Fence, database: &D, body: F) -> Result<T, E>
where
    D: FencedDatabase,
    E: From<FenceError>,
    F: AsyncFnOnce(&mut D::Connection) -> Result<T, E>,
{
    let mut transaction = database.begin(fence).await?;
    if let Err(error) = D::fence(&mut transaction, fence).await {
        D::roll_back(transaction).await;
        return Err(error.into());
    }
    match body(&mut transaction).await {
        Ok(value) => {
            D::commit(transaction, fence).await?;
            Ok(value)
        }
        Err(error) => {
            D::roll_back(transaction).await;
            Err(error)
        }
    }
}
