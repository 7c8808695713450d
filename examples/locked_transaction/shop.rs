//! The business function, whose lock is kept in the database that it writes to.

use std::sync::Arc;

use distlock::{FencingToken, LockError, LockManager, distributed_lock};
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls};

/// The price of a gift.
pub(crate) const PRICE: i64 = 100;

const TABLES: &str = "
    CREATE SCHEMA IF NOT EXISTS distlock_example;
    CREATE TABLE IF NOT EXISTS distlock_example.accounts (user_id bigint PRIMARY KEY, points bigint NOT NULL);
    CREATE TABLE IF NOT EXISTS distlock_example.gifts (user_id bigint NOT NULL);
";

#[derive(Debug, thiserror::Error)]
pub(crate) enum RedeemError {
    #[error("{points} points are not enough: a gift costs {PRICE}")]
    NotEnoughPoints { points: i64 },
    /// Nothing was written.
    #[error("the lock is not held any more")]
    NotHeld,
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Database(tokio_postgres::Error),
}

impl From<tokio_postgres::Error> for RedeemError {
    fn from(error: tokio_postgres::Error) -> Self {
        // Raised by `assert_held_1`.
        match error.code().is_some_and(|code| code.code() == "DL002") {
            true => RedeemError::NotHeld,
            false => RedeemError::Database(error),
        }
    }
}

/// One instance of the service.
#[derive(Clone)]
pub(crate) struct Shop {
    pub(crate) locks: LockManager,
    /// Stands for a pool. One connection orders the transactions of this process. For a pool, `assert_held_1` does not:
    /// use `distlock::fence::SameDatabase`, which also compares the tokens.
    database: Arc<Mutex<Client>>,
}

impl Shop {
    pub(crate) async fn open(url: &str, locks: LockManager) -> Result<Self, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        // The task ends with the client. Errors of the connection are reported by the statements.
        tokio::spawn(connection);
        Ok(Shop { locks, database: Arc::new(Mutex::new(client)) })
    }

    /// The key of the attribute, after the manager's prefix, which is empty here.
    pub(crate) fn key(user_id: i64) -> String {
        format!("points:{user_id}")
    }

    /// Redeems one gift and returns the points that are left: one redemption per user at a time, in all instances of
    /// the service together.
    #[distributed_lock(key = "points:<user_id>", ttl = "10s", wait = "60s", token = token, manager = self.locks)]
    pub(crate) async fn redeem(&self, user_id: i64) -> Result<i64, RedeemError> {
        let points = self.points(user_id).await?;
        if points < PRICE {
            return Err(RedeemError::NotEnoughPoints { points });
        }
        self.give_gift(user_id, points - PRICE, Some(token)).await?;
        Ok(points - PRICE)
    }

    /// Writes a gift and the points that are left. With a token the transaction fails unless the owner of the token
    /// holds the lock, and no other instance gets the lock before the transaction has ended.
    pub(crate) async fn give_gift(
        &self,
        user_id: i64,
        left: i64,
        token: Option<FencingToken>,
    ) -> Result<(), RedeemError> {
        let mut database = self.database.lock().await;
        let transaction = database.transaction().await?;
        if let Some(token) = token {
            let held = "SELECT distlock.assert_held_1($1, $2)";
            transaction.execute(held, &[&Self::key(user_id), &token.get().cast_signed()]).await?;
        }
        let update = "UPDATE distlock_example.accounts SET points = $2 WHERE user_id = $1";
        transaction.execute(update, &[&user_id, &left]).await?;
        transaction.execute("INSERT INTO distlock_example.gifts VALUES ($1)", &[&user_id]).await?;
        // Before the lock is released: the release would wait for it.
        transaction.commit().await?;
        Ok(())
    }

    pub(crate) async fn points(&self, user_id: i64) -> Result<i64, tokio_postgres::Error> {
        self.number("SELECT points FROM distlock_example.accounts WHERE user_id = $1", user_id).await
    }

    pub(crate) async fn gifts(&self, user_id: i64) -> Result<i64, tokio_postgres::Error> {
        self.number("SELECT count(*) FROM distlock_example.gifts WHERE user_id = $1", user_id).await
    }

    async fn number(&self, sql: &str, user_id: i64) -> Result<i64, tokio_postgres::Error> {
        self.database.lock().await.query_one(sql, &[&user_id]).await?.try_get(0)
    }

    /// Creates an account with `points` and without gifts.
    pub(crate) async fn open_account(&self, user_id: i64, points: i64) -> Result<(), tokio_postgres::Error> {
        let database = self.database.lock().await;
        database.execute("DELETE FROM distlock_example.gifts WHERE user_id = $1", &[&user_id]).await?;
        let insert = "INSERT INTO distlock_example.accounts VALUES ($1, $2)
            ON CONFLICT (user_id) DO UPDATE SET points = $2";
        database.execute(insert, &[&user_id, &points]).await.map(drop)
    }

    pub(crate) async fn make_tables(&self) -> Result<(), tokio_postgres::Error> {
        self.database.lock().await.batch_execute(TABLES).await
    }

    pub(crate) async fn drop_tables(&self) -> Result<(), tokio_postgres::Error> {
        self.database.lock().await.batch_execute("DROP SCHEMA distlock_example CASCADE").await
    }
}
