//! diesel and rusqlite, which block a thread.

use std::error::Error;
use std::panic::resume_unwind;

use diesel::connection::SimpleConnection;
use diesel::r2d2::{self, ConnectionManager};
use diesel::sql_types::{BigInt, Text};
use diesel::{Connection, PgConnection, QueryableByName, RunQueryDsl, SqliteConnection};
use distlock_fence::{Done, Fence, Once, SameDatabase, blocking};
use rusqlite::params;
use sqlx::{PgPool, SqlitePool};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::libraries::{Idle, On};
use crate::library::{Failure, Library, OnceLibrary, Plan, Returned, Step};
use crate::world::{postgres, sql, sqlite};

/// Calls a function in a thread that may block, and passes on its panics.
async fn in_a_thread<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(call).await {
        Ok(value) => value,
        Err(error) => resume_unwind(error.into_panic()),
    }
}

pub(crate) fn diesel_at(observer: PgPool, url: String) -> On<Idle<PgConnection>, PgPool> {
    On { pool: Idle::at(url), observer }
}

pub(crate) async fn diesel_on_postgres() -> (On<Idle<PgConnection>, PgPool>, ()) {
    let (observer, url) = postgres().await;
    (diesel_at(observer, url), ())
}

pub(crate) async fn diesel_on_sqlite() -> (On<Idle<SqliteConnection>, SqlitePool>, tempfile::TempDir) {
    let (observer, folder) = sqlite().await;
    let file = folder.path().join("data.db").to_str().unwrap().to_owned();
    (On { pool: Idle::at(file), observer }, folder)
}

macro_rules! once_library {
    ($connection:ty, $observer:ty, $step:ident) => {
        impl OnceLibrary for On<Idle<$connection>, $observer> {
            async fn once<T: Returned>(
                &self,
                fence: &Fence,
                request: &Once,
                result: Result<T, Failure>,
            ) -> Result<Done<T>, Failure> {
                let (pool, fence, request) = (self.pool.clone(), fence.clone(), request.clone());
                in_a_thread(move || {
                    let mut connection = pool.lend(pool.connection());
                    blocking::once(&fence, &mut *connection, &request, |connection| {
                        $step(connection, &fence, Step::Write)?;
                        result
                    })
                })
                .await
            }

            async fn prune(&self) -> u64 {
                let pool = self.pool.clone();
                in_a_thread(move || blocking::prune(&mut *pool.lend(pool.connection())).unwrap()).await
            }
        }
    };
}

#[derive(QueryableByName)]
struct Counter {
    #[diesel(sql_type = BigInt)]
    n: i64,
}

macro_rules! diesel_on {
    ($connection:ty, $observer:ty, $step:ident, $sql:ident, $first:expr) => {
        impl Idle<$connection> {
            fn connection(&self) -> $connection {
                self.used().unwrap_or_else(|| {
                    let mut connection = <$connection>::establish(&self.url).unwrap();
                    connection.batch_execute(&$first).unwrap();
                    connection
                })
            }
        }

        impl Library for On<Idle<$connection>, $observer> {
            type Observer = $observer;
            const BLOCKS: bool = true;

            fn observer(&self) -> &$observer {
                &self.observer
            }

            async fn section(&self, fence: &Fence, plan: Plan) -> Result<(), Failure> {
                let (pool, fence, runtime) = (self.pool.clone(), fence.clone(), Handle::current());
                in_a_thread(move || {
                    let mut connection = pool.lend(pool.connection());
                    blocking::transaction(&fence, &mut *connection, |connection| {
                        plan.block_on(&runtime, |step| $step(connection, &fence, step))
                    })
                })
                .await
            }

            async fn make_table(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
                let pool = self.pool.clone();
                in_a_thread(move || blocking::migrate(&mut *pool.lend(pool.connection()))).await
            }
        }

        once_library!($connection, $observer, $step);

        pub(crate) fn $step(connection: &mut $connection, fence: &Fence, step: Step) -> Result<(), Failure> {
            let key = fence.key();
            match step {
                Step::Write => {
                    let token = i64::try_from(fence.token()).unwrap();
                    let write = diesel::sql_query(sql::WRITE).bind::<Text, _>(key).bind::<BigInt, _>(token);
                    write.execute(connection)?;
                }
                Step::CountUp => {
                    let read = diesel::sql_query(sql::READ).bind::<Text, _>(key);
                    let number = read.get_result::<Counter>(connection)?.n;
                    let set = diesel::sql_query(sql::SET).bind::<BigInt, _>(number + 1).bind::<Text, _>(key);
                    set.execute(connection)?;
                }
                Step::Fail => assert!(connection.batch_execute(sql::$sql::FAIL).is_err()),
            }
            Ok(())
        }
    };
}

diesel_on!(PgConnection, PgPool, step_on_postgres, postgres, "SELECT 1");
diesel_on!(
    SqliteConnection,
    SqlitePool,
    step_on_sqlite,
    sqlite,
    format!("PRAGMA busy_timeout = {}", distlock_fixtures::BOUND.as_millis())
);

/// Connections to a database that also keeps the locks.
pub(crate) type DieselPool = r2d2::Pool<ConnectionManager<PgConnection>>;

pub(crate) fn diesel_pool_at(url: &str) -> DieselPool {
    // Connections are made when they are needed.
    let builder = r2d2::Pool::builder().max_size(8).min_idle(Some(0));
    builder.connection_timeout(distlock_fixtures::BOUND).build_unchecked(ConnectionManager::new(url))
}

impl Library for On<SameDatabase<DieselPool>, PgPool> {
    type Observer = PgPool;
    const BLOCKS: bool = true;

    fn observer(&self) -> &PgPool {
        &self.observer
    }

    async fn section(&self, fence: &Fence, plan: Plan) -> Result<(), Failure> {
        let (pool, fence, runtime) = (self.pool.clone(), fence.clone(), Handle::current());
        in_a_thread(move || {
            blocking::transaction_in(&fence, &pool, |connection| {
                plan.block_on(&runtime, |step| step_on_postgres(connection, &fence, step))
            })
        })
        .await
    }

    async fn make_table(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let pool = self.pool.clone();
        in_a_thread(move || blocking::migrate(&mut *pool.get()?)).await
    }
}

impl OnceLibrary for On<SameDatabase<DieselPool>, PgPool> {
    async fn once<T: Returned>(
        &self,
        fence: &Fence,
        request: &Once,
        result: Result<T, Failure>,
    ) -> Result<Done<T>, Failure> {
        let (pool, fence, request) = (self.pool.clone(), fence.clone(), request.clone());
        in_a_thread(move || {
            blocking::once_in(&fence, &pool, &request, |connection| {
                step_on_postgres(connection, &fence, Step::Write)?;
                result
            })
        })
        .await
    }

    async fn prune(&self) -> u64 {
        let pool = self.pool.clone();
        in_a_thread(move || blocking::prune(&mut *pool.get().unwrap()).unwrap()).await
    }
}

pub(crate) async fn rusqlite() -> (On<Idle<rusqlite::Connection>, SqlitePool>, tempfile::TempDir) {
    let (observer, folder) = sqlite().await;
    let file = folder.path().join("data.db").to_str().unwrap().to_owned();
    (On { pool: Idle::at(file), observer }, folder)
}

impl Idle<rusqlite::Connection> {
    fn connection(&self) -> rusqlite::Connection {
        self.used().unwrap_or_else(|| {
            let connection = rusqlite::Connection::open(&self.url).unwrap();
            connection.busy_timeout(distlock_fixtures::BOUND).unwrap();
            connection
        })
    }
}

once_library!(rusqlite::Connection, SqlitePool, rusqlite_step);

impl Library for On<Idle<rusqlite::Connection>, SqlitePool> {
    type Observer = SqlitePool;
    const BLOCKS: bool = true;

    fn observer(&self) -> &SqlitePool {
        &self.observer
    }

    async fn section(&self, fence: &Fence, plan: Plan) -> Result<(), Failure> {
        let (pool, fence, runtime) = (self.pool.clone(), fence.clone(), Handle::current());
        in_a_thread(move || {
            let mut connection = pool.lend(pool.connection());
            blocking::transaction(&fence, &mut *connection, |connection| {
                plan.block_on(&runtime, |step| rusqlite_step(connection, &fence, step))
            })
        })
        .await
    }

    async fn make_table(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let pool = self.pool.clone();
        in_a_thread(move || blocking::migrate(&mut *pool.lend(pool.connection()))).await
    }
}

fn rusqlite_step(tx: &rusqlite::Connection, fence: &Fence, step: Step) -> Result<(), Failure> {
    match step {
        Step::Write => {
            let token = i64::try_from(fence.token()).unwrap();
            tx.execute(sql::WRITE, params![fence.key(), token])?;
        }
        Step::CountUp => {
            let number: i64 = tx.query_row(sql::READ, [fence.key()], |row| row.get(0))?;
            tx.execute(sql::SET, params![number + 1, fence.key()])?;
        }
        Step::Fail => assert!(tx.execute_batch(sql::sqlite::FAIL).is_err()),
    }
    Ok(())
}
