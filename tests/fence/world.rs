//! The databases, each with a table for what the transactions of one test have done.

use std::sync::atomic::{AtomicU32, Ordering};

use distlock_fence::{Fence, FenceError, FencedDatabase};
use distlock_fixtures::{MariaDbServer, PostgresServer};
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{Executor, MySqlPool, PgPool, SqlitePool};

/// What the bodies of the tests fail with.
#[derive(Debug)]
#[expect(dead_code, reason = "the tests that fail print them")]
pub(crate) enum Failure {
    /// Of the fence.
    Fence(FenceError),
    /// Of a statement of the body.
    Statement(sqlx::Error),
    /// Of the lock.
    Lock(distlock::LockError),
    /// Of the body itself.
    Refused,
}

impl From<FenceError> for Failure {
    fn from(error: FenceError) -> Self {
        Failure::Fence(error)
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Failure::Statement(error)
    }
}

/// A database with the table `done (id, name, token)`, whose ids rise in the order of insertion.
pub(crate) trait World: FencedDatabase + Clone + Send + Sync + 'static {
    /// Writes what this transaction does.
    fn write(
        connection: &mut Self::Connection,
        fence: &Fence,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// The tokens that have written, in order.
    fn written(&self, key: &str) -> impl Future<Output = Vec<i64>> + Send;

    /// Reads a number, and writes it one larger, as two statements.
    fn count_up(
        connection: &mut Self::Connection,
        fence: &Fence,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// The number.
    fn counted(&self, key: &str) -> impl Future<Output = i64> + Send;
}

macro_rules! world {
    ($pool:ty, $write:literal, $written:literal, $set:literal, $read:literal) => {
        impl World for $pool {
            async fn write(connection: &mut Self::Connection, fence: &Fence) -> Result<(), sqlx::Error> {
                let token = i64::try_from(fence.token()).unwrap();
                sqlx::query($write).bind(fence.key()).bind(token).execute(&mut *connection).await.map(drop)
            }

            async fn written(&self, key: &str) -> Vec<i64> {
                sqlx::query_scalar($written).bind(key).fetch_all(self).await.unwrap()
            }

            async fn count_up(connection: &mut Self::Connection, fence: &Fence) -> Result<(), sqlx::Error> {
                let read = sqlx::query_scalar::<_, i64>($read).bind(fence.key());
                let number = read.fetch_one(&mut *connection).await?;
                let set = sqlx::query($set).bind(number + 1).bind(fence.key());
                set.execute(&mut *connection).await.map(drop)
            }

            async fn counted(&self, key: &str) -> i64 {
                sqlx::query_scalar($read).bind(key).fetch_one(self).await.unwrap()
            }
        }
    };
}

world!(
    PgPool,
    "INSERT INTO done (name, token) VALUES ($1, $2)",
    "SELECT token FROM done WHERE name = $1 ORDER BY id",
    "UPDATE counter SET n = $1 WHERE name = $2",
    "SELECT n FROM counter WHERE name = $1"
);
world!(
    MySqlPool,
    "INSERT INTO done (name, token) VALUES (?, ?)",
    "SELECT token FROM done WHERE name = ? ORDER BY id",
    "UPDATE counter SET n = ? WHERE name = ?",
    "SELECT n FROM counter WHERE name = ?"
);
world!(
    SqlitePool,
    "INSERT INTO done (name, token) VALUES ($1, $2)",
    "SELECT token FROM done WHERE name = $1 ORDER BY id",
    "UPDATE counter SET n = $1 WHERE name = $2",
    "SELECT n FROM counter WHERE name = $1"
);

/// A database of its own on the shared server, at this isolation level.
pub(crate) async fn postgres_at(level: &str) -> (PgPool, PgConnectOptions) {
    let server: PgConnectOptions = PostgresServer::shared().url().parse().unwrap();
    let name = unused_name();
    let admin = PgPoolOptions::new().max_connections(1).connect_with(server.clone()).await.unwrap();
    sqlx::raw_sql(&format!("CREATE DATABASE {name}")).execute(&admin).await.unwrap();
    let options =
        server.database(&name).options([("default_transaction_isolation", level.replace(" ", "\\ "))]);
    let pool = PgPoolOptions::new().max_connections(8).connect_with(options.clone()).await.unwrap();
    let tables = "CREATE TABLE done (id bigserial PRIMARY KEY, name text, token bigint);
                  CREATE TABLE counter (name text PRIMARY KEY, n bigint);
                  INSERT INTO counter VALUES ('k', 0)";
    sqlx::raw_sql(tables).execute(&pool).await.unwrap();
    distlock_fence::migrate(&pool).await.unwrap();
    (pool, options)
}

/// The same on MariaDB.
pub(crate) async fn mariadb_at(level: &'static str) -> (MySqlPool, MySqlConnectOptions) {
    let server: MySqlConnectOptions = MariaDbServer::shared().url().parse().unwrap();
    let name = unused_name();
    let admin = MySqlPoolOptions::new().max_connections(1).connect_with(server.clone()).await.unwrap();
    sqlx::raw_sql(&format!("CREATE DATABASE {name}")).execute(&admin).await.unwrap();
    let options = server.database(&name);
    let at_level = MySqlPoolOptions::new().max_connections(8).after_connect(move |connection, _| {
        Box::pin(async move {
            let set = format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}");
            connection.execute(set.as_str()).await.map(drop)
        })
    });
    let pool = at_level.connect_with(options.clone()).await.unwrap();
    let tables = "CREATE TABLE done (id bigint PRIMARY KEY AUTO_INCREMENT, name varbinary(99), token bigint);
                  CREATE TABLE counter (name varbinary(99) PRIMARY KEY, n bigint);
                  INSERT INTO counter VALUES ('k', 0)";
    sqlx::raw_sql(tables).execute(&pool).await.unwrap();
    distlock_fence::migrate(&pool).await.unwrap();
    (pool, options)
}

fn unused_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("fence_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A file, which goes with the folder.
pub(crate) async fn sqlite() -> (SqlitePool, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = SqliteConnectOptions::new().filename(folder.path().join("data.db")).create_if_missing(true);
    // Transactions wait for each other here, however long that takes on this machine.
    let file = file.busy_timeout(distlock_fixtures::BOUND);
    let pool = SqlitePoolOptions::new().max_connections(8).connect_with(file).await.unwrap();
    let tables = "CREATE TABLE done (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, token INTEGER);
                  CREATE TABLE counter (name TEXT PRIMARY KEY, n INTEGER);
                  INSERT INTO counter VALUES ('k', 0)";
    sqlx::raw_sql(tables).execute(&pool).await.unwrap();
    distlock_fence::migrate(&pool).await.unwrap();
    (pool, folder)
}
