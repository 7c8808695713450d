//! The pools of `deadpool-postgres`.

use std::error;
use std::ops::Deref;

use deadpool_postgres::{Manager, Pool};
use tokio_postgres::Client;
#[cfg(feature = "once")]
use tokio_postgres::types::ToSql;

use crate::begun::Begun;
use crate::pooled::Pooled;
#[cfg(feature = "once")]
use crate::signed;
use crate::tokio_postgres::{check, committed, migrate};
use crate::{Fence, FenceError, FencedDatabase, statements};

/// A client with an open transaction, as the body of a section gets it. (Not one to be changed: it could begin another
/// transaction, whose commit would be the commit of this one.)
#[derive(Debug)]
pub struct Transaction(Pooled<Manager>);

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
        Ok(Begun(Transaction(transaction)))
    }

    async fn fence(transaction: &mut Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
        check(transaction, fence).await
    }

    async fn commit(transaction: Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
        let still_good = transaction.batch_execute(statements::STILL_GOOD).await;
        still_good.map_err(|error| FenceError::not_committed(fence, error))?;
        committed(transaction.batch_execute("COMMIT").await, fence)?;
        transaction.0.0.give_back();
        Ok(())
    }

    async fn roll_back(transaction: Self::Transaction) {
        if transaction.batch_execute("ROLLBACK").await.is_ok() {
            transaction.0.0.give_back();
        }
    }

    async fn migrate(&self) -> Result<(), Box<dyn error::Error + Send + Sync>> {
        let object = self.get().await?;
        migrate(&object).await
    }
}

#[cfg(feature = "once")]
impl crate::OnceDatabase for Pool {
    async fn find(&self, fence: &Fence) -> Result<Option<crate::Stored>, FenceError> {
        let object = self.get().await.map_err(|error| FenceError::not_committed(fence, error))?;
        find(&object, fence).await
    }

    async fn find_in(
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
        let (key, token, keep) = (fence.key(), signed(fence)?, crate::once_statements::millis(keep));
        let row: &[&(dyn ToSql + Sync)] = &[&key, &stored.result, &stored.arguments, &token, &keep];
        let store = transaction.execute(crate::once_statements::POSTGRES.store, row).await;
        store.map(drop).map_err(|error| FenceError::not_committed(fence, error))
    }

    async fn prune(&self) -> Result<u64, Box<dyn error::Error + Send + Sync>> {
        Ok(self.get().await?.execute(crate::once_statements::POSTGRES.prune, &[]).await?)
    }
}

#[cfg(feature = "once")]
async fn find(client: &Client, fence: &Fence) -> Result<Option<crate::Stored>, FenceError> {
    let stored = async {
        let row = client.query_opt(crate::once_statements::POSTGRES.find, &[&fence.key()]).await?;
        let stored = row.map(|row| Ok(crate::Stored { result: row.try_get(0)?, arguments: row.try_get(1)? }));
        stored.transpose()
    };
    stored.await.map_err(|error: tokio_postgres::Error| FenceError::not_committed(fence, error))
}
