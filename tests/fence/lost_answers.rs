//! A commit that was refused, one that never arrived, and one whose reply was lost.

use std::sync::Arc;

use distlock_fence::{Fence, FenceError};
use distlock_fixtures::{Direction, MariaDbServer, PostgresServer, Proxy};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::{MySqlPool, PgPool, SqlitePool};

use crate::libraries::asynchronous::{
    deadpool_postgres, deadpool_postgres_at, diesel_async, diesel_async_at, diesel_async_singly,
    tokio_postgres, tokio_postgres_at,
};
use crate::libraries::blocking::{diesel_at, diesel_on_postgres, diesel_on_sqlite, rusqlite};
use crate::libraries::pools::{mysql_async_at, sea_orm_at, sea_orm_on_postgres, sea_orm_on_sqlite, sqlx_at};
use crate::library::{End, Failure, Library, Plan, Step};
use crate::world::{World, mariadb_at, mariadb_url, postgres_at, postgres_url, sqlite};

/// The connection is cut in the body. Nothing was committed, and the caller gets an error that says so.
async fn cut_before_the_commit<L: Library>(through: &L, proxy: &Arc<Proxy>) {
    let its = Arc::clone(proxy);
    let plan = Plan::ending(End::DoAndWrite(Box::new(move || its.cut())));
    let cut = through.section(&Fence::new("k", 1), plan).await;
    assert!(matches!(cut, Err(Failure::Statement(_))), "{cut:?}");
    assert_eq!(through.observer().written("k").await, [0; 0]);
}

/// The connection is cut after the commit was applied, and before its reply arrives.
async fn cut_after_the_commit<L: Library>(
    through: &L,
    proxy: &Proxy,
    plan: Plan,
    hold_its_answer: impl Future<Output = ()>,
) {
    let cut = async {
        hold_its_answer.await;
        while through.observer().written("k").await.is_empty() {
            tokio::task::yield_now().await;
        }
        proxy.cut();
    };
    let (committed, ()) = tokio::join!(async { through.section(&Fence::new("k", 1), plan).await }, cut);
    let unknown = matches!(committed, Err(Failure::Fence(FenceError::OutcomeUnknown { .. })));
    assert!(unknown, "{committed:?}");
    assert_eq!(through.observer().written("k").await, [1]);
}

async fn mariadb_tells_a_lost_commit_from_one_that_was_not_sent<L: Library>(
    open: impl AsyncFn(MySqlPool, MySqlConnectOptions) -> L,
) {
    let (database, options) = mariadb_at("REPEATABLE READ").await;
    let proxy = Arc::new(Proxy::to(&MariaDbServer::shared().address()));
    let options = options.port(proxy.address().port());
    cut_before_the_commit(&open(database.clone(), options.clone()).await, &proxy).await;

    let its = Arc::clone(&proxy);
    let plan = Plan::ending(End::Do(Box::new(move || its.hold(Direction::Replies))));
    cut_after_the_commit(&open(database, options).await, &proxy, plan, async {}).await;
}

async fn postgres_tells_a_lost_commit_from_one_that_was_not_sent<L: Library>(
    open: impl AsyncFn(PgPool, PgConnectOptions) -> L,
) {
    let (database, options) = postgres_at("read committed").await;
    let proxy = Arc::new(Proxy::to(&PostgresServer::shared().address()));
    let options = options.port(proxy.address().port());
    cut_before_the_commit(&open(database.clone(), options.clone()).await, &proxy).await;

    // COMMIT, which is not the first command after the body, waits for an advisory lock until its reply will be lost.
    let slow_commit = "CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS
                           'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END';
                       CREATE CONSTRAINT TRIGGER pause AFTER INSERT ON done DEFERRABLE INITIALLY DEFERRED
                           FOR EACH ROW EXECUTE FUNCTION pause()";
    sqlx::raw_sql(slow_commit).execute(&database).await.unwrap();
    let mut brake = database.acquire().await.unwrap();
    sqlx::raw_sql("SELECT pg_advisory_lock(1)").execute(&mut *brake).await.unwrap();
    let hold_its_answer = async {
        let waits = "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database
                     WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted";
        while sqlx::query_scalar::<_, i64>(waits).fetch_one(&database).await.unwrap() == 0 {
            tokio::task::yield_now().await;
        }
        proxy.hold(Direction::Replies);
        sqlx::raw_sql("SELECT pg_advisory_unlock(1)").execute(&mut *brake).await.unwrap();
    };
    let through = open(database.clone(), options).await;
    cut_after_the_commit(&through, &proxy, Plan::default(), hold_its_answer).await;
}

/// The commit checks a constraint and is refused. The error says so.
async fn a_commit_that_postgres_refuses_is_not_committed<L: Library<Observer = PgPool>>(library: &L) {
    let unique = "ALTER TABLE done ADD UNIQUE (name) DEFERRABLE INITIALLY DEFERRED";
    sqlx::raw_sql(unique).execute(library.observer()).await.unwrap();
    is_not_committed(library, Plan::before(Step::Write)).await;
}

/// After a failed statement, PostgreSQL replies to COMMIT with a rollback, which is not an error.
async fn a_body_that_hides_a_failed_statement_is_not_committed<L: Library<Observer = PgPool>>(library: &L) {
    is_not_committed(library, Plan::ending(End::HideAFailure)).await;
}

/// The commit checks foreign keys.
async fn a_commit_that_sqlite_refuses_is_not_committed<L: Library<Observer = SqlitePool>>(library: &L) {
    let orphans = "CREATE TABLE child (of TEXT REFERENCES counter (name) DEFERRABLE INITIALLY DEFERRED);
                   CREATE TRIGGER orphan AFTER INSERT ON done BEGIN INSERT INTO child VALUES ('nobody'); END";
    sqlx::raw_sql(orphans).execute(library.observer()).await.unwrap();
    is_not_committed(library, Plan::default()).await;
}

async fn is_not_committed<L: Library>(library: &L, plan: Plan) {
    let refused = library.section(&Fence::new("k", 1), plan).await;
    let not_committed = matches!(refused, Err(Failure::Fence(FenceError::NotCommitted { .. })));
    assert!(not_committed, "{refused:?}");
    assert_eq!(library.observer().written("k").await, [0; 0]);
    // The connection can still be used.
    library.make_table().await.unwrap();
}

/// The client knows that it is closed, and sends no commit whose outcome would be unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_committed_by_a_client_of_tokio_postgres_that_is_closed() {
    let (database, options) = postgres_at("read committed").await;
    let proxy = Proxy::to(&PostgresServer::shared().address());
    let url = postgres_url(&options.port(proxy.address().port()));
    let (mut client, connection) = ::tokio_postgres::connect(&url, ::tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let fence = Fence::new("k", 1);
    let cut = distlock_fence::tokio_postgres::transaction(&fence, &mut client, async |tx| {
        proxy.cut();
        while !tx.client().is_closed() {
            tokio::task::yield_now().await;
        }
        Ok::<_, Failure>(())
    });
    let cut = cut.await;
    assert!(matches!(cut, Err(Failure::Fence(FenceError::NotCommitted { .. }))), "{cut:?}");
    // The token was not raised either.
    database.section(&Fence::new("k", 0), Plan::default()).await.unwrap();
}

macro_rules! lost_answers {
    ($rule:ident: $($library:ident: $open:expr;)*) => {
        mod $rule {
            use super::*;

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $library() {
                    super::$rule($open).await;
                }
            )*
        }
    };
}

lost_answers! { mariadb_tells_a_lost_commit_from_one_that_was_not_sent:
    with_sqlx: async |database, options| sqlx_at(database, MySqlPool::connect_with(options).await.unwrap());
    with_mysql_async: async |database, options| mysql_async_at(database, &mariadb_url(&options));
    with_sea_orm: async |database, options| sea_orm_at(database, &mariadb_url(&options)).await;
}

lost_answers! { postgres_tells_a_lost_commit_from_one_that_was_not_sent:
    with_sqlx: async |database, options| sqlx_at(database, PgPool::connect_with(options).await.unwrap());
    with_deadpool_postgres: async |database, options| deadpool_postgres_at(database, &postgres_url(&options));
    with_diesel: async |database, options| diesel_at(database, postgres_url(&options));
    with_diesel_async: async |database, options| diesel_async_at(database, &postgres_url(&options));
    with_sea_orm: async |database, options| sea_orm_at(database, &postgres_url(&options)).await;
    with_tokio_postgres: async |database, options| tokio_postgres_at(database, postgres_url(&options));
}

lost_answers! { a_commit_that_postgres_refuses_is_not_committed:
    with_sqlx: &postgres_at("read committed").await.0;
    with_diesel: &diesel_on_postgres().await.0;
    with_deadpool_postgres: &deadpool_postgres().await.0;
    with_diesel_async: &diesel_async().await.0;
    with_diesel_async_singly: &diesel_async_singly().await.0;
    with_sea_orm: &sea_orm_on_postgres().await.0;
    with_tokio_postgres: &tokio_postgres().await.0;
}

lost_answers! { a_body_that_hides_a_failed_statement_is_not_committed:
    with_sqlx: &postgres_at("read committed").await.0;
    with_diesel: &diesel_on_postgres().await.0;
    with_deadpool_postgres: &deadpool_postgres().await.0;
    with_diesel_async: &diesel_async().await.0;
    with_diesel_async_singly: &diesel_async_singly().await.0;
    with_sea_orm: &sea_orm_on_postgres().await.0;
    with_tokio_postgres: &tokio_postgres().await.0;
}

lost_answers! { a_commit_that_sqlite_refuses_is_not_committed:
    with_sqlx: &sqlite().await.0;
    with_diesel: &diesel_on_sqlite().await.0;
    with_rusqlite: &rusqlite().await.0;
    with_sea_orm: &sea_orm_on_sqlite().await.0;
}
