//! The remains of a section: a dropped transaction, and savepoints that its body has not ended.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::{Connection, RunQueryDsl};
use diesel_async::pooled_connection::deadpool::Pool;
use diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};
use distlock_fence::blocking::OnceConnection;
use distlock_fence::{Fence, FenceError, Once, blocking, transaction};
use tokio::sync::oneshot;

use crate::libraries::asynchronous::{deadpool_postgres, diesel_async, tokio_postgres};
use crate::libraries::pools::{mysql_async_on_mariadb, sea_orm_on_mariadb, sea_orm_on_postgres, sqlx_at};
use crate::library::{End, Failure, Library, Plan, Step, Steps};
use crate::world::{World, mariadb_at, postgres_at, sql, sqlite};

/// The pool gets the connection back, and does not use it again.
async fn a_section_that_is_dropped_holds_nobody_up<L: Library>(library: &L) {
    let (copy, (wrote, has_written)) = (library.clone(), oneshot::channel());
    let hangs = async move { copy.section(&Fence::new("k", 1), Plan::ending(End::Hang(wrote))).await };
    let dropped = tokio::spawn(hangs);
    has_written.await.unwrap();
    dropped.abort();
    assert!(dropped.await.is_err_and(|error| error.is_cancelled()));
    library.observer().section(&Fence::new("k", 1), Plan::default()).await.unwrap();
    assert_eq!(library.observer().written("k").await, [1]);
}

/// Each test uses a separate database.
macro_rules! dropped {
    ($($library:ident: $open:expr;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $library() {
            a_section_that_is_dropped_holds_nobody_up(&$open).await;
        }
    )*};
}

dropped! {
    dropped_with_sqlx_on_postgres: { let pool = postgres_at("read committed").await.0; sqlx_at(pool.clone(), pool) };
    dropped_with_sqlx_on_mariadb: { let pool = mariadb_at("READ COMMITTED").await.0; sqlx_at(pool.clone(), pool) };
    dropped_with_deadpool_postgres: deadpool_postgres().await.0;
    dropped_with_diesel_async: diesel_async().await.0;
    dropped_with_mysql_async: mysql_async_on_mariadb().await.0;
    dropped_with_sea_orm_on_mariadb: sea_orm_on_mariadb().await.0;
    dropped_with_sea_orm_on_postgres: sea_orm_on_postgres().await.0;
    dropped_with_tokio_postgres: tokio_postgres().await.0;
}

fn is_not_committed(result: &Result<(), Failure>) -> bool {
    matches!(result, Err(Failure::Fence(FenceError::NotCommitted { .. })))
}

/// A commit would end the savepoint, and leave the transaction open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_savepoint_whose_future_was_dropped_is_not_committed() {
    let (library, ()) = diesel_async().await;
    let fence = Fence::new("k", 1);
    let body = async |connection: &mut AsyncPgConnection| {
        let (wrote, has_written) = oneshot::channel();
        let inner = connection.transaction(async |connection| {
            Pool::<AsyncPgConnection>::step(connection, &fence, Step::Write).await?;
            wrote.send(()).unwrap();
            std::future::pending::<Result<(), Failure>>().await
        });
        tokio::select! {
            _ = inner => unreachable!("it waits for ever"),
            _ = has_written => {}
        }
        Ok::<_, Failure>(())
    };
    let result = transaction(&fence, library.pool(), body).await;
    assert!(is_not_committed(&result), "{result:?}");
    library.observer().section(&fence, Plan::default()).await.unwrap();
    assert_eq!(library.observer().written("k").await, [1]);
}

/// Ends the first savepoint of diesel behind its back.
const RELEASE: &str = "RELEASE SAVEPOINT diesel_savepoint_1";

/// RELEASE was executed, but its reply not read. (Without debug assertions, a RELEASE that is dropped leaves this.)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_savepoint_that_is_gone_leaves_no_transaction_open() {
    let (library, ()) = diesel_async().await;
    let mut connection = library.pool().get().await.unwrap();
    let body = async |connection: &mut AsyncPgConnection| {
        let (released, is_released) = oneshot::channel();
        let inner = connection.transaction(async |connection| {
            connection.batch_execute(RELEASE).await?;
            released.send(()).unwrap();
            std::future::pending::<Result<(), Failure>>().await
        });
        tokio::select! {
            _ = inner => unreachable!("it waits for ever"),
            _ = is_released => {}
        }
        Ok::<_, Failure>(())
    };
    let fence = Fence::new("k", 1);
    let result = distlock_fence::diesel_async::transaction(&fence, &mut connection, body).await;
    assert!(is_not_committed(&result), "{result:?}");
    let open = "SELECT count(*) FROM pg_stat_activity \
                WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    let open = sqlx::query_scalar::<_, i64>(open).fetch_one(library.observer()).await.unwrap();
    assert_eq!(open, 0, "other sections of the key would wait for it");
    let body = async |_: &mut AsyncPgConnection| Ok::<_, Failure>(());
    distlock_fence::diesel_async::transaction(&fence, &mut connection, body).await.unwrap();
}

/// A savepoint in which the body catches a panic.
#[test]
fn a_savepoint_that_panicked_is_not_committed() {
    let mut connection = diesel::SqliteConnection::establish(":memory:").unwrap();
    blocking::migrate(&mut connection).unwrap();
    let fence = Fence::new("k", 1);
    for first in ["SELECT 1", RELEASE] {
        let result = blocking::transaction(&fence, &mut connection, |connection| {
            let panics = AssertUnwindSafe(|| {
                connection.transaction::<(), Failure, _>(|connection| {
                    connection.batch_execute(first)?;
                    panic!("the body")
                })
            });
            assert!(catch_unwind(panics).is_err());
            Ok::<_, Failure>(())
        });
        assert!(is_not_committed(&result), "{result:?}");
    }
    blocking::transaction(&fence, &mut connection, |_| Ok::<_, Failure>(())).unwrap();
}

/// SQLite ends the transaction inside that savepoint, and commits the next write at once.
#[test]
fn a_write_after_the_end_in_a_savepoint_that_panicked_is_not_reported_as_undone() {
    let (fence, request) = (Fence::new("k", 1), Once::new(Duration::from_secs(60)));
    let body = |connection: &mut diesel::SqliteConnection| {
        let panics = AssertUnwindSafe(|| {
            connection.transaction::<(), Failure, _>(|connection| {
                // Diesel does not notice the end.
                assert!(diesel::sql_query(sql::sqlite::FAIL).execute(connection).is_err());
                connection.batch_execute("INSERT INTO counter VALUES ('written', 1)")?;
                panic!("the body")
            })
        });
        assert!(catch_unwind(panics).is_err());
        Ok::<u64, Failure>(1)
    };
    for is_once in [false, true] {
        let mut connection = diesel::SqliteConnection::establish(":memory:").unwrap();
        blocking::migrate(&mut connection).unwrap();
        let counter =
            "CREATE TABLE counter (name TEXT PRIMARY KEY, n INTEGER); INSERT INTO counter VALUES ('k', 0)";
        connection.batch_execute(counter).unwrap();
        let result = if is_once {
            blocking::once(&fence, &mut connection, &request, body).map(|done| done.value)
        } else {
            blocking::transaction(&fence, &mut connection, body)
        };
        let is_unknown = matches!(result, Err(Failure::Fence(FenceError::OutcomeUnknown { .. })));
        assert!(is_unknown, "{result:?}");
        assert_eq!(connection.find(&fence).unwrap(), None);
    }
}

/// The rule of the documentation: a row may be deleted if its token is below every fence that is still in use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_go_when_no_smaller_token_is_left() {
    let (pool, _folder) = sqlite().await;
    let write = async |key, token| pool.section(&Fence::new(key, token), Plan::default()).await;
    for (key, token) in [("over", 10), ("k", 20), ("k", 30)] {
        write(key, token).await.unwrap();
    }
    // The oldest process was started at 15, so no holder has a smaller token.
    let deleted = sqlx::query("DELETE FROM distlock_fence WHERE token < 15").execute(&pool).await.unwrap();
    assert_eq!(deleted.rows_affected(), 1);
    assert!(matches!(write("k", 20).await, Err(Failure::Fence(FenceError::Stale { newest: 30, .. }))));
    write("over", 16).await.unwrap();
    // This is too early: the old holder is accepted.
    sqlx::query("DELETE FROM distlock_fence WHERE token < 31").execute(&pool).await.unwrap();
    write("k", 20).await.unwrap();
}

/// The writes of the body would be committed later, or never.
#[test]
fn inside_of_another_transaction_nothing_is_fenced() {
    let fence = Fence::new("k", 1);
    let mut its = diesel::SqliteConnection::establish(":memory:").unwrap();
    blocking::migrate(&mut its).unwrap();
    its.begin_test_transaction().unwrap();
    let result = blocking::transaction(&fence, &mut its, |_| Ok::<_, Failure>(()));
    assert!(is_not_committed(&result), "{result:?}");

    let mut its = rusqlite::Connection::open_in_memory().unwrap();
    blocking::migrate(&mut its).unwrap();
    its.execute_batch("BEGIN").unwrap();
    let result = blocking::transaction(&fence, &mut its, |_| Ok::<_, Failure>(()));
    assert!(is_not_committed(&result), "{result:?}");
    assert!(!its.is_autocommit());
}
