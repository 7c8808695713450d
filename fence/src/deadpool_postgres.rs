//! The pools of `deadpool-postgres`.

use std::error;
use std::ops::Deref;

use deadpool_postgres::{Manager, Pool};
use futures_util::future::join;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Statement};

use crate::begun::Begun;
use crate::pooled::Pooled;
use crate::tokio_postgres::{assert_and_check, assert_held, check, commit_on, migrate};
#[cfg(feature = "once")]
use crate::tokio_postgres::{find, prune, store};
use crate::{AssertHeld, Fence, FenceError, FencedDatabase};

/// A client with an open transaction: the argument of a section's body. (The client is not mutable, because it could
/// begin another transaction, whose commit would commit this one.)
#[derive(Debug)]
pub struct Transaction(Pooled<Manager>);

impl Transaction {
    /// A statement that this connection of the pool caches, like `prepare_cached` of the pool's clients. It is prepared
    /// at its first use. Later uses need no message.
    ///
    /// # Errors
    /// The error of the database.
    ///
    /// # Cancel safety
    /// Cancel-safe: if the future is dropped, the statement is prepared again the next time.
    pub async fn prepare_cached(&self, query: &str) -> Result<Statement, Error> {
        self.0.prepare_cached(query).await
    }

    /// The same with the types of the parameters, so the server need not guess them.
    ///
    /// # Errors
    /// The error of the database.
    ///
    /// # Cancel safety
    /// Cancel-safe, like [`prepare_cached`](Transaction::prepare_cached).
    pub async fn prepare_typed_cached(&self, query: &str, types: &[Type]) -> Result<Statement, Error> {
        self.0.prepare_typed_cached(query, types).await
    }
}

impl Deref for Transaction {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.0
    }
}

impl FencedDatabase for Pool {
    type Connection = Transaction;
    type Transaction = Begun<Transaction>;

    async fn begin(&self, fence: &Fence) -> Result<Self::Transaction, FenceError> {
        let object = self.get().await.map_err(|error| FenceError::not_committed(fence, error))?;
        let transaction = Pooled::new(object);
        let begun = transaction.batch_execute("BEGIN").await;
        begun.map_err(|error| FenceError::not_committed(fence, error))?;
        Ok(Begun::new(Transaction(transaction), drop))
    }

    async fn fence(&self, transaction: &mut Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
        check(transaction, fence).await
    }

    /// The client sends what several futures ask for in the order of their first polls. If BEGIN alone fails, because
    /// it was cancelled, the check is a transaction by itself: it refuses holders that were already overtaken.
    async fn begin_fenced(&self, fence: &Fence) -> Result<Self::Transaction, FenceError> {
        let object = self.get().await.map_err(|error| FenceError::not_committed(fence, error))?;
        let transaction = Begun::new(Transaction(Pooled::new(object)), drop);
        let (begun, checked) = join(transaction.batch_execute("BEGIN"), check(&transaction, fence)).await;
        match begun.map_err(|error| FenceError::not_committed(fence, error)).and(checked) {
            Ok(()) => Ok(transaction),
            Err(error) => {
                Self::roll_back(transaction).await;
                Err(error)
            }
        }
    }

    async fn commit(transaction: Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
        commit_on(&transaction, fence).await?;
        transaction.into_inner().0.give_back();
        Ok(())
    }

    async fn roll_back(transaction: Self::Transaction) {
        if transaction.batch_execute("ROLLBACK").await.is_ok() {
            transaction.into_inner().0.give_back();
        }
    }

    async fn migrate(&self) -> Result<(), Box<dyn error::Error + Send + Sync>> {
        let object = self.get().await?;
        migrate(&object).await
    }
}

impl AssertHeld for Pool {
    async fn assert_held(
        transaction: &mut Self::Transaction,
        statement: &str,
        fence: &Fence,
    ) -> Result<(), FenceError> {
        assert_held(transaction, statement, fence).await
    }

    async fn assert_and_fence(
        &self,
        transaction: &mut Self::Transaction,
        statement: &str,
        fence: &Fence,
    ) -> Result<(), FenceError> {
        assert_and_check(transaction, statement, fence).await
    }
}

#[cfg(feature = "once")]
impl crate::OnceDatabase for Pool {
    async fn find(&self, fence: &Fence) -> Result<Option<crate::Stored>, FenceError> {
        let object = self.get().await.map_err(|error| FenceError::not_committed(fence, error))?;
        find(&object, fence).await
    }

    async fn find_in(
        &self,
        transaction: &mut Self::Transaction,
        fence: &Fence,
    ) -> Result<Option<crate::Stored>, FenceError> {
        find(transaction, fence).await
    }

    async fn store(
        transaction: &mut Self::Transaction,
        fence: &Fence,
        stored: &crate::Stored,
        keep: std::time::Duration,
    ) -> Result<(), FenceError> {
        store(transaction, fence, stored, keep).await
    }

    async fn prune(&self) -> Result<u64, Box<dyn error::Error + Send + Sync>> {
        prune(&*self.get().await?).await
    }
}
