//! What a fenced transaction needs of a database.

use std::error::Error;
use std::future::Future;
use std::ops::DerefMut;
use std::sync::Arc;

use crate::{Fence, FenceError};

/// A database, by a pool of connections, whose transactions can be fenced.
///
/// Implemented for the pools of `sqlx`, `mysql_async`, `sea-orm`, `deadpool-postgres` and `diesel-async`. Where a
/// transaction belongs to one connection, there is a function for that, like
/// `distlock_fence::tokio_postgres::transaction`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a database whose transactions can be fenced",
    label = "expected a pool of connections",
    note = "turn on the feature of distlock-fence for it, like `sqlx-postgres`; for a connection of another library call \
            the function of its module, like `distlock_fence::tokio_postgres::transaction`"
)]
pub trait FencedDatabase: Sync {
    /// What the body of a transaction sends its statements to. It has no lifetime: in an async closure the compiler
    /// could not see that a future with one is `Send`.
    type Connection: Send;

    /// A transaction. If it is dropped before it was committed, it is rolled back.
    type Transaction: DerefMut<Target = Self::Connection> + Send + 'static;

    /// Begins a transaction.
    fn begin(&self, fence: &Fence) -> impl Future<Output = Result<Self::Transaction, FenceError>> + Send;

    /// Refuses a holder that was overtaken, and keeps the row of the key until the transaction ends: the stored token
    /// is raised to that of `fence`. (A `SameDatabase` asks the lock itself.)
    ///
    /// # Errors
    /// [`FenceError::Stale`] if it was overtaken; [`FenceError::NotCommitted`] if the database fails.
    fn fence(
        &self,
        transaction: &mut Self::Transaction,
        fence: &Fence,
    ) -> impl Future<Output = Result<(), FenceError>> + Send;

    /// [`begin`](FencedDatabase::begin) and [`fence`](FencedDatabase::fence). A database whose library can send the
    /// second statement before the answer to the first one has arrived does so.
    ///
    /// # Errors
    /// Those of both.
    fn begin_fenced(
        &self,
        fence: &Fence,
    ) -> impl Future<Output = Result<Self::Transaction, FenceError>> + Send {
        async move {
            let mut transaction = self.begin(fence).await?;
            match self.fence(&mut transaction, fence).await {
                Ok(()) => Ok(transaction),
                Err(error) => {
                    Self::roll_back(transaction).await;
                    Err(error)
                }
            }
        }
    }

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

    /// Makes the tables `distlock_fence` and `distlock_once`, if there are none.
    ///
    /// # Errors
    /// What the database said.
    fn migrate(&self) -> impl Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send;
}

/// A database behind a pointer to it.
macro_rules! behind_pointer {
    ($pointer:ty) => {
        #[diagnostic::do_not_recommend]
        impl<D: FencedDatabase + Send + Sync> FencedDatabase for $pointer {
            type Connection = D::Connection;
            type Transaction = D::Transaction;

            async fn begin(&self, fence: &Fence) -> Result<Self::Transaction, FenceError> {
                D::begin(self, fence).await
            }

            async fn fence(
                &self,
                transaction: &mut Self::Transaction,
                fence: &Fence,
            ) -> Result<(), FenceError> {
                D::fence(self, transaction, fence).await
            }

            async fn begin_fenced(&self, fence: &Fence) -> Result<Self::Transaction, FenceError> {
                D::begin_fenced(self, fence).await
            }

            async fn commit(transaction: Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
                D::commit(transaction, fence).await
            }

            async fn roll_back(transaction: Self::Transaction) {
                D::roll_back(transaction).await;
            }

            async fn migrate(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
                D::migrate(self).await
            }
        }

        #[cfg(feature = "once")]
        impl<D: crate::OnceDatabase + Send + Sync> crate::OnceDatabase for $pointer {
            async fn find(&self, fence: &Fence) -> Result<Option<crate::Stored>, FenceError> {
                D::find(self, fence).await
            }

            async fn find_in(
                &self,
                transaction: &mut Self::Transaction,
                fence: &Fence,
            ) -> Result<Option<crate::Stored>, FenceError> {
                D::find_in(self, transaction, fence).await
            }

            async fn store(
                transaction: &mut Self::Transaction,
                fence: &Fence,
                stored: &crate::Stored,
                keep: std::time::Duration,
            ) -> Result<(), FenceError> {
                D::store(transaction, fence, stored, keep).await
            }

            async fn prune(&self) -> Result<u64, Box<dyn Error + Send + Sync>> {
                D::prune(self).await
            }
        }
    };
}

behind_pointer!(&D);
behind_pointer!(Arc<D>);

/// Makes the tables `distlock_fence` and `distlock_once`, if there are none. Their definitions, to be pasted into
/// migrations of one's own: [`schema`](crate::schema).
///
/// # Errors
/// What the database said.
pub async fn migrate<D: FencedDatabase>(database: &D) -> Result<(), Box<dyn Error + Send + Sync>> {
    database.migrate().await
}
