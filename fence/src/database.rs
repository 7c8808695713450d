//! The interface of a database for fenced transactions.

use std::error::Error;
use std::future::Future;
use std::ops::DerefMut;
use std::sync::Arc;

use crate::{Fence, FenceError};

/// A database that supports fenced transactions: a pool of connections.
///
/// Implemented for the pools of `sqlx`, `mysql_async`, `sea-orm`, `deadpool-postgres` and `diesel-async`. For a
/// transaction on a single connection, use a function such as `distlock_fence::tokio_postgres::transaction`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a database whose transactions can be fenced",
    label = "expected a pool of connections",
    note = "turn on the feature of distlock-fence for it, like `sqlx-postgres`; for a connection of another library call \
            the function of its module, like `distlock_fence::tokio_postgres::transaction`"
)]
pub trait FencedDatabase: Sync {
    /// The type to which the body of a transaction sends its statements. It has no lifetime, because in an async
    /// closure, the compiler cannot see that a future with a lifetime is `Send`.
    type Connection: Send;

    /// A transaction. If it is dropped before the commit, it is rolled back.
    type Transaction: DerefMut<Target = Self::Connection> + Send + 'static;

    /// Begins a transaction.
    fn begin(&self, fence: &Fence) -> impl Future<Output = Result<Self::Transaction, FenceError>> + Send;

    /// Checks the fence: refuses a holder that was overtaken, or raises the stored token to the token of `fence`. The
    /// row of the key stays locked until the transaction ends. (A `SameDatabase` checks the lock first.)
    ///
    /// # Errors
    /// [`FenceError::Stale`] if the holder was overtaken; [`FenceError::NotCommitted`] if the database fails.
    fn fence(
        &self,
        transaction: &mut Self::Transaction,
        fence: &Fence,
    ) -> impl Future<Output = Result<(), FenceError>> + Send;

    /// [`begin`](FencedDatabase::begin) and [`fence`](FencedDatabase::fence). If the library allows it, the second
    /// statement is sent before the reply to the first one has arrived.
    ///
    /// # Errors
    /// The errors of both.
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
    /// [`FenceError::NotCommitted`] only if it is certain that nothing was committed. Otherwise
    /// [`FenceError::OutcomeUnknown`].
    fn commit(
        transaction: Self::Transaction,
        fence: &Fence,
    ) -> impl Future<Output = Result<(), FenceError>> + Send;

    /// Rolls back. If this fails, the server rolls back when it notices that the connection has ended.
    fn roll_back(transaction: Self::Transaction) -> impl Future<Output = ()> + Send;

    /// Creates the tables `distlock_fence` and `distlock_once`, if they do not exist.
    ///
    /// # Errors
    /// The error of the database.
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
        once_behind!($pointer);
    };
}

/// The results of a database behind a pointer to it, or in a `SameDatabase`.
#[cfg(feature = "once")]
macro_rules! once_behind {
    ($pointer:ty $(, $and:path)?) => {
        impl<D: crate::OnceDatabase + Send + Sync $(+ $and)?> crate::OnceDatabase for $pointer {
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
#[cfg(all(feature = "once", feature = "__same-database"))]
pub(crate) use once_behind;

behind_pointer!(&D);
behind_pointer!(Arc<D>);

/// Creates the tables `distlock_fence` and `distlock_once`, if they do not exist. For your own migrations,
/// [`schema`](crate::schema) has their definitions.
///
/// # Errors
/// The error of the database.
pub async fn migrate<D: FencedDatabase>(database: &D) -> Result<(), Box<dyn Error + Send + Sync>> {
    database.migrate().await
}
