//! Accounts and gifts in a SQLite file that all service instances share.

use std::path::Path;

use sqlx::{
    Row, SqliteConnection, SqliteExecutor, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

#[derive(Debug, Clone)]
pub(crate) struct Store {
    pub(crate) pool: SqlitePool,
}

#[derive(Debug, Clone, Copy, serde::Serialize)]
pub(crate) struct Account {
    pub(crate) points: i64,
    pub(crate) gifts: i64,
}

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS accounts (user_id INTEGER PRIMARY KEY, points INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS gifts (id INTEGER PRIMARY KEY, user_id INTEGER NOT NULL);
";

impl Store {
    pub(crate) async fn open(path: &Path) -> Result<Self, sqlx::Error> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(std::time::Duration::from_secs(30));
        let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await?;
        sqlx::raw_sql(SCHEMA).execute(&pool).await?;
        distlock::fence::migrate(&pool).await.map_err(sqlx::Error::Configuration)?;
        Ok(Self { pool })
    }

    /// Creates an account with `points` and without gifts.
    pub(crate) async fn open_account(&self, user_id: u64, points: i64) -> Result<(), sqlx::Error> {
        let mut transaction = self.pool.begin().await?;
        sqlx::query("INSERT OR REPLACE INTO accounts (user_id, points) VALUES (?, ?)")
            .bind(user_id.cast_signed())
            .bind(points)
            .execute(&mut *transaction)
            .await?;
        sqlx::query("DELETE FROM gifts WHERE user_id = ?")
            .bind(user_id.cast_signed())
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await
    }

    pub(crate) async fn account(&self, user_id: u64) -> Result<Option<Account>, sqlx::Error> {
        account(&self.pool, user_id).await
    }

    pub(crate) async fn give_gift(&self, user_id: u64, points_left: i64) -> Result<(), sqlx::Error> {
        let mut transaction = self.pool.begin().await?;
        give_gift(&mut transaction, user_id, points_left).await?;
        transaction.commit().await
    }
}

pub(crate) async fn account(
    database: impl SqliteExecutor<'_>,
    user_id: u64,
) -> Result<Option<Account>, sqlx::Error> {
    let row = sqlx::query(
        "SELECT points, (SELECT count(*) FROM gifts WHERE user_id = accounts.user_id) AS gifts
         FROM accounts WHERE user_id = ?",
    )
    .bind(user_id.cast_signed())
    .fetch_optional(database)
    .await?;
    row.map(|row| Ok(Account { points: row.try_get("points")?, gifts: row.try_get("gifts")? })).transpose()
}

/// Gives a gift within a transaction.
pub(crate) async fn give_gift(
    connection: &mut SqliteConnection,
    user_id: u64,
    points_left: i64,
) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accounts SET points = ? WHERE user_id = ?")
        .bind(points_left)
        .bind(user_id.cast_signed())
        .execute(&mut *connection)
        .await?;
    sqlx::query("INSERT INTO gifts (user_id) VALUES (?)")
        .bind(user_id.cast_signed())
        .execute(connection)
        .await?;
    Ok(())
}
