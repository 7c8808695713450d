//! The databases, each with a table that records the transactions of one test.

use std::sync::atomic::{AtomicU32, Ordering};

use distlock_fence::Fence;
use distlock_fixtures::{MariaDbServer, PostgresServer};
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{Executor, MySqlPool, PgPool, SqlitePool};

use crate::library::{Failure, Step, Steps};

/// A database with the table `done (id, name, token)`, whose ids rise in the order of insertion.
pub(crate) trait World: Steps {
    /// The tokens that have written, in order.
    fn written(&self, key: &str) -> impl Future<Output = Vec<i64>> + Send;

    /// Whether a transaction waits for another one. (SQLite does not report it.)
    fn waits(&self) -> impl Future<Output = bool> + Send;

    /// The value of the counter.
    fn counted(&self, key: &str) -> impl Future<Output = i64> + Send;
}

/// The statements of the steps.
pub(crate) mod sql {
    pub(crate) const WRITE: &str = "INSERT INTO done (name, token) VALUES ($1, $2)";
    pub(crate) const WRITTEN: &str = "SELECT token FROM done WHERE name = $1 ORDER BY id";
    pub(crate) const READ: &str = "SELECT n FROM counter WHERE name = $1";
    pub(crate) const SET: &str = "UPDATE counter SET n = $1 WHERE name = $2";
    pub(crate) const FAIL: &str = "INSERT INTO counter VALUES ('k', 1)";
    pub(crate) const WAITS: &str = "SELECT 1";

    /// The statements for PostgreSQL.
    pub(crate) mod postgres {
        pub(crate) use super::{FAIL, READ, SET, WRITE, WRITTEN};
        pub(crate) const WAITS: &str = "SELECT count(*) FROM pg_stat_activity \
                                        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    }

    /// The statements for SQLite.
    pub(crate) mod sqlite {
        pub(crate) use super::{READ, SET, WAITS, WRITE, WRITTEN};
        pub(crate) const FAIL: &str = "INSERT OR ROLLBACK INTO counter VALUES ('k', 1)";
    }

    /// The statements for MySQL.
    pub(crate) mod mysql {
        pub(crate) const WRITE: &str = "INSERT INTO done (name, token) VALUES (?, ?)";
        pub(crate) const WRITTEN: &str = "SELECT token FROM done WHERE name = ? ORDER BY id";
        pub(crate) const READ: &str = "SELECT n FROM counter WHERE name = ?";
        pub(crate) const SET: &str = "UPDATE counter SET n = ? WHERE name = ?";
        /// Waits for another transaction, for a deadlock.
        pub(crate) const FAIL: &str = "UPDATE counter SET n = 1 WHERE name = 'other'";
        pub(crate) const WAITS: &str = "SELECT count(*) FROM information_schema.processlist \
                                        WHERE db = DATABASE() AND info LIKE 'INSERT INTO distlock_fence%'";
    }
}

macro_rules! world {
    ($pool:ty, $($sql:ident)::+) => {
        impl Steps for $pool {
            async fn step(
                connection: &mut Self::Connection,
                fence: &Fence,
                step: Step,
            ) -> Result<(), Failure> {
                match step {
                    Step::Write => {
                        let token = i64::try_from(fence.token()).unwrap();
                        let write = sqlx::query($($sql)::+::WRITE).bind(fence.key()).bind(token);
                        write.execute(&mut *connection).await?;
                    }
                    Step::CountUp => {
                        let read = sqlx::query_scalar::<_, i64>($($sql)::+::READ).bind(fence.key());
                        let number = read.fetch_one(&mut *connection).await?;
                        let set = sqlx::query($($sql)::+::SET).bind(number + 1).bind(fence.key());
                        set.execute(&mut *connection).await?;
                    }
                    Step::Fail => {
                        assert!(sqlx::query($($sql)::+::FAIL).execute(&mut *connection).await.is_err());
                    }
                }
                Ok(())
            }
        }

        impl World for $pool {
            async fn written(&self, key: &str) -> Vec<i64> {
                sqlx::query_scalar($($sql)::+::WRITTEN).bind(key).fetch_all(self).await.unwrap()
            }

            async fn waits(&self) -> bool {
                sqlx::query_scalar::<_, i64>($($sql)::+::WAITS).fetch_one(self).await.unwrap() > 0
            }

            async fn counted(&self, key: &str) -> i64 {
                sqlx::query_scalar($($sql)::+::READ).bind(key).fetch_one(self).await.unwrap()
            }
        }
    };
}

world!(PgPool, sql::postgres);
world!(MySqlPool, sql::mysql);
world!(SqlitePool, sql::sqlite);

/// A separate database on the shared PostgreSQL server, with this isolation level.
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

/// A separate database with the server's default isolation level, and its URL.
pub(crate) async fn postgres() -> (PgPool, String) {
    let (pool, options) = postgres_at("read committed").await;
    let url = postgres_url(&options);
    (pool, url)
}

/// The URL, in the form that every library reads.
pub(crate) fn postgres_url(options: &PgConnectOptions) -> String {
    let (user, host, port) = (options.get_username(), options.get_host(), options.get_port());
    format!("postgres://{user}@{host}:{port}/{}", options.get_database().unwrap())
}

/// A separate database on MariaDB, with this isolation level.
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

/// A separate database with the server's default isolation level, and its URL.
pub(crate) async fn mariadb() -> (MySqlPool, String) {
    let (pool, options) = mariadb_at("REPEATABLE READ").await;
    let url = mariadb_url(&options);
    (pool, url)
}

/// The URL, in the form that every library reads.
pub(crate) fn mariadb_url(options: &MySqlConnectOptions) -> String {
    let (user, host, port) = (options.get_username(), options.get_host(), options.get_port());
    format!("mysql://{user}@{host}:{port}/{}", options.get_database().unwrap())
}

fn unused_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("fence_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A file, which is removed together with its folder.
pub(crate) async fn sqlite() -> (SqlitePool, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = SqliteConnectOptions::new().filename(folder.path().join("data.db")).create_if_missing(true);
    // Transactions wait for each other here, with enough time for a slow machine.
    let file = file.busy_timeout(distlock_fixtures::BOUND);
    let pool = SqlitePoolOptions::new().max_connections(8).connect_with(file).await.unwrap();
    let tables = "CREATE TABLE done (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, token INTEGER);
                  CREATE TABLE counter (name TEXT PRIMARY KEY, n INTEGER);
                  INSERT INTO counter VALUES ('k', 0)";
    sqlx::raw_sql(tables).execute(&pool).await.unwrap();
    distlock_fence::migrate(&pool).await.unwrap();
    (pool, folder)
}
