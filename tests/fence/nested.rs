//! Transactions that end early, and nested ones that a body drops, keeps, or cannot begin.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Mutex;
use std::task::Poll;
use std::time::Duration;

use diesel::RunQueryDsl;
use diesel::connection::SimpleConnection;
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection};
use distlock_fence::blocking::OnceConnection;
use distlock_fence::{Fence, FenceError, FencedTransaction, Once, OnceDatabase, blocking, once, transaction};
use distlock_fixtures::{Direction, PostgresServer, Proxy};
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, SqlxPostgresConnector, SqlxSqliteConnector,
    TransactionTrait,
};
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{Connection, PgConnection, PgPool, SqliteConnection, SqlitePool};

use crate::libraries::On;
use crate::libraries::asynchronous::{deadpool_postgres, diesel_async};
use crate::libraries::blocking::{diesel_on_sqlite, rusqlite};
use crate::libraries::pools::{sea_orm_on_mariadb, sea_orm_on_postgres, sqlx_at};
use crate::library::{End, Failure, Library, Plan, Step, Steps};
use crate::world::{World, postgres, postgres_at, sql, sqlite};

fn is_unknown<T>(result: &Result<T, Failure>) -> bool {
    matches!(result, Err(Failure::Fence(FenceError::OutcomeUnknown { .. })))
}

async fn write_twice<D: Steps>(
    tx: &mut D::Connection,
    fence: &Fence,
    between: &impl AsyncFn(&mut D::Connection),
) -> Result<u64, Failure> {
    D::step(tx, fence, Step::Write).await?;
    between(tx).await;
    D::step(tx, fence, Step::Write).await?;
    Ok(1)
}

/// The first write is undone by `end`, which the body hides. The second one may be committed. The caller learns this,
/// and no result is stored.
async fn is_not_reported_as_committed<D: Steps + OnceDatabase>(
    pool: &D,
    observer: &impl World,
    end: impl AsyncFn(&mut D::Connection),
) {
    let (fence, request) = (Fence::new("k", 1), Once::new(Duration::from_secs(60)));
    let body = async |tx: &mut D::Connection| write_twice::<D>(tx, &fence, &end).await;
    let ended = transaction(&fence, pool, &body).await;
    assert!(is_unknown(&ended), "{ended:?}");
    let ended = once(&fence, pool, &request, &body).await;
    assert!(is_unknown(&ended), "{ended:?}");
    assert_eq!(pool.find(&fence).await.unwrap(), None);
    // No transaction is left.
    observer.section(&fence, Plan::default()).await.unwrap();
    transaction(&fence, pool, async |tx| D::step(tx, &fence, Step::Write).await).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_nested_begin_that_fails_with_sqlx_on_postgres() {
    let (pool, _) = postgres_at("read committed").await;
    is_not_reported_as_committed(&pool, &pool, async |tx: &mut PgConnection| {
        PgPool::step(tx, &Fence::new("k", 1), Step::Fail).await.unwrap();
        assert!(tx.begin().await.is_err());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_nested_begin_that_fails_with_sea_orm_on_postgres() {
    let (observer, _) = postgres_at("read committed").await;
    let pool = SqlxPostgresConnector::from_sqlx_postgres_pool(observer.clone());
    is_not_reported_as_committed(&pool, &observer, async |tx: &mut DatabaseTransaction| {
        DatabaseConnection::step(tx, &Fence::new("k", 1), Step::Fail).await.unwrap();
        assert!(tx.begin().await.is_err());
    })
    .await;
}

/// A pool behind a proxy, and an observer.
async fn postgres_behind_a_proxy() -> (PgPool, PgPool, Proxy) {
    let (observer, options) = postgres_at("read committed").await;
    let proxy = Proxy::to(&PostgresServer::shared().address());
    let pool = PgPool::connect_with(options.port(proxy.address().port())).await.unwrap();
    (pool, observer, proxy)
}

/// Drops a nested `begin` when the server has executed its SAVEPOINT, and its reply is held.
async fn dropped_before_its_reply<T>(observer: &PgPool, proxy: &Proxy, nested: impl Future<Output = T>) {
    proxy.hold(Direction::Replies);
    let executed = async {
        let executed = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                        AND state = 'idle in transaction' AND query LIKE 'SAVEPOINT%'";
        while sqlx::query_scalar::<_, i64>(executed).fetch_one(observer).await.unwrap() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = nested => panic!("its reply is held"),
        () = executed => {}
    }
    proxy.pass();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_nested_begin_that_is_dropped_with_sqlx_on_postgres() {
    let (pool, observer, proxy) = postgres_behind_a_proxy().await;
    is_not_reported_as_committed(&pool, &observer, async |tx: &mut PgConnection| {
        dropped_before_its_reply(&observer, &proxy, tx.begin()).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_nested_begin_that_is_dropped_with_sea_orm_on_postgres() {
    let (pool, observer, proxy) = postgres_behind_a_proxy().await;
    let pool = SqlxPostgresConnector::from_sqlx_postgres_pool(pool);
    is_not_reported_as_committed(&pool, &observer, async |tx: &mut DatabaseTransaction| {
        dropped_before_its_reply(&observer, &proxy, tx.begin()).await;
    })
    .await;
}

/// The body ends its transaction by a statement of its own.
macro_rules! after_a_roll_back_of_the_body {
    ($($test:ident: $library:expr, |$tx:ident: $connection:ty| $end:expr;)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            let (library, ()) = $library.await;
            is_not_reported_as_committed(library.pool(), library.observer(), async |$tx: &mut $connection| {
                $end.await.unwrap();
            })
            .await;
        }
    )*};
}

after_a_roll_back_of_the_body! {
    after_a_roll_back_of_the_body_with_sqlx:
        async { let pool = postgres().await.0; (sqlx_at(pool.clone(), pool), ()) },
        |tx: PgConnection| sqlx::raw_sql("ROLLBACK").execute(tx);
    after_a_roll_back_of_the_body_with_sea_orm:
        sea_orm_on_postgres(), |tx: DatabaseTransaction| tx.execute_unprepared("ROLLBACK");
    after_a_roll_back_of_the_body_with_deadpool_postgres:
        deadpool_postgres(),
        |tx: distlock_fence::deadpool_postgres::Transaction| tx.batch_execute("ROLLBACK");
    after_a_roll_back_of_the_body_with_diesel_async:
        diesel_async(), |tx: AsyncPgConnection| SimpleAsyncConnection::batch_execute(tx, "ROLLBACK");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_roll_back_of_the_body_with_tokio_postgres() {
    let (pool, url) = postgres().await;
    let (mut client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let (fence, request) = (Fence::new("k", 1), Once::new(Duration::from_secs(60)));
    let ended = distlock_fence::tokio_postgres::once(&fence, &mut client, &request, async |tx| {
        tx.batch_execute("ROLLBACK").await?;
        tx.execute(sql::WRITE, &[&"k", &1_i64]).await?;
        Ok::<u64, Failure>(1)
    });
    let ended = ended.await;
    assert!(is_unknown(&ended), "{ended:?}");
    assert_eq!(OnceDatabase::find(&pool, &fence).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_roll_back_of_the_body_with_diesel_on_postgres() {
    let (pool, url) = postgres().await;
    let (fence, request) = (Fence::new("k", 1), Once::new(Duration::from_secs(60)));
    let its = fence.clone();
    let ended = tokio::task::spawn_blocking(move || {
        let mut connection = <diesel::PgConnection as diesel::Connection>::establish(&url).unwrap();
        blocking::once(&its, &mut connection, &request, |connection| {
            connection.batch_execute("ROLLBACK; INSERT INTO done (name, token) VALUES ('k', 1)")?;
            Ok::<u64, Failure>(1)
        })
    });
    let ended = ended.await.unwrap();
    assert!(is_unknown(&ended), "{ended:?}");
    assert_eq!(OnceDatabase::find(&pool, &fence).await.unwrap(), None);
}

/// A pool with one connection, which every section uses, and an observer.
async fn single_sqlite() -> (SqlitePool, SqlitePool, tempfile::TempDir) {
    let (observer, folder) = sqlite().await;
    let single = SqlitePoolOptions::new().max_connections(1).acquire_timeout(distlock_fixtures::BOUND);
    let single = single.connect_with((*observer.connect_options()).clone()).await.unwrap();
    (single, observer, folder)
}

/// Outside of a transaction, the savepoint begins one, for whose COMMIT the library and SQLite have no objection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_end_of_the_transaction_and_a_savepoint_with_sqlx_on_sqlite() {
    let (pool, observer, _folder) = single_sqlite().await;
    is_not_reported_as_committed(&pool, &observer, async |tx: &mut SqliteConnection| {
        SqlitePool::step(tx, &Fence::new("k", 1), Step::Fail).await.unwrap();
        tx.begin().await.unwrap().rollback().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_end_of_the_transaction_and_a_savepoint_with_sea_orm_on_sqlite() {
    let (pool, observer, _folder) = single_sqlite().await;
    let pool = SqlxSqliteConnector::from_sqlx_sqlite_pool(pool);
    is_not_reported_as_committed(&pool, &observer, async |tx: &mut DatabaseTransaction| {
        DatabaseConnection::step(tx, &Fence::new("k", 1), Step::Fail).await.unwrap();
        tx.begin().await.unwrap().rollback().await.unwrap();
    })
    .await;
}

/// Nested transactions that end are no obstacle. (A savepoint stays when it is rolled back.)
async fn all_is_committed<D: Steps + OnceDatabase>(
    pool: &D,
    observer: &impl World,
    nest: impl AsyncFn(&mut D::Connection),
) {
    let (fence, request) = (Fence::new("k", 1), Once::new(Duration::from_secs(60)));
    let body = async |tx: &mut D::Connection| write_twice::<D>(tx, &fence, &nest).await;
    transaction(&fence, pool, &body).await.unwrap();
    once(&fence, pool, &request, &body).await.unwrap();
    assert!(pool.find(&fence).await.unwrap().is_some());
    assert_eq!(observer.written("k").await, [1; 4]);
    observer.section(&fence, Plan::default()).await.unwrap();
}

/// Begins two nested transactions: rolls one back, and commits the other.
macro_rules! nest {
    () => {
        async |tx| {
            tx.begin().await.unwrap().rollback().await.unwrap();
            tx.begin().await.unwrap().commit().await.unwrap();
        }
    };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_nested_transactions_all_is_committed_on_sqlite() {
    let (pool, observer, _folder) = single_sqlite().await;
    all_is_committed(&pool, &observer, nest!()).await;
    let (pool, observer, _folder) = single_sqlite().await;
    all_is_committed(&SqlxSqliteConnector::from_sqlx_sqlite_pool(pool), &observer, nest!()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_nested_transactions_all_is_committed_on_postgres() {
    let (pool, _) = postgres_at("read committed").await;
    all_is_committed(&pool, &pool, nest!()).await;
    let (library, ()) = sea_orm_on_postgres().await;
    all_is_committed(library.pool(), library.observer(), nest!()).await;
}

/// The connection of the pool is in no transaction: others see what it writes, and can write.
async fn is_in_no_transaction(single: &SqlitePool, observer: &SqlitePool) {
    let before = observer.written("plain").await;
    let write = "INSERT INTO done (name, token) VALUES ('plain', 1)";
    sqlx::raw_sql(write).execute(single).await.unwrap();
    assert_eq!(observer.written("plain").await.len(), before.len() + 1, "the write is not committed");
    observer.section(&Fence::new("other", 1), Plan::default()).await.unwrap();
}

/// SQLite rolls back by itself in a nested transaction, and the body returns the error.
async fn a_connection_can_be_used_after<D: Steps>(
    pool: &D,
    single: &SqlitePool,
    observer: &SqlitePool,
    nested: impl AsyncFn(&mut D::Connection) -> Result<(), Failure>,
) {
    let fence = Fence::new("k", 1);
    for _ in 0..2 {
        let refused = transaction(&fence, pool, &nested).await;
        assert!(matches!(refused, Err(Failure::Refused)), "{refused:?}");
        is_in_no_transaction(single, observer).await;
        let write = async |tx: &mut D::Connection| {
            D::step(tx, &fence, Step::Write).await?;
            Err::<(), _>(Failure::Refused)
        };
        let refused = transaction(&fence, pool, write).await;
        assert!(matches!(refused, Err(Failure::Refused)), "{refused:?}");
        is_in_no_transaction(single, observer).await;
    }
    transaction(&fence, pool, async |tx| D::step(tx, &fence, Step::Write).await).await.unwrap();
    assert_eq!(observer.written("k").await, [1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_nested_transaction_has_ended_can_be_used_with_sqlx() {
    let (pool, observer, _folder) = single_sqlite().await;
    a_connection_can_be_used_after(&pool, &pool, &observer, async |tx: &mut SqliteConnection| {
        let mut nested = tx.begin().await?;
        SqlitePool::step(&mut nested, &Fence::new("k", 1), Step::Fail).await?;
        Err(Failure::Refused)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_nested_transaction_has_ended_can_be_used_with_sea_orm() {
    let (single, observer, _folder) = single_sqlite().await;
    let pool = SqlxSqliteConnector::from_sqlx_sqlite_pool(single.clone());
    a_connection_can_be_used_after(&pool, &single, &observer, async |tx: &mut DatabaseTransaction| {
        let mut nested = tx.begin().await?;
        DatabaseConnection::step(&mut nested, &Fence::new("k", 1), Step::Fail).await?;
        Err(Failure::Refused)
    })
    .await;
}

/// Ends a transaction on the only connection of the pool, which can then be used.
async fn a_connection_of_sea_orm_can_be_used_after(
    end: impl AsyncFnOnce(FencedTransaction<DatabaseConnection>, &Fence),
) {
    let (single, observer, _folder) = single_sqlite().await;
    let pool = SqlxSqliteConnector::from_sqlx_sqlite_pool(single.clone());
    let fence = Fence::new("k", 1);
    end(FencedTransaction::begin(&fence, &pool).await.unwrap(), &fence).await;
    is_in_no_transaction(&single, &observer).await;
    for _ in 0..2 {
        transaction(&fence, &pool, async |tx| DatabaseConnection::step(tx, &fence, Step::Write).await)
            .await
            .unwrap();
        is_in_no_transaction(&single, &observer).await;
    }
    assert_eq!(observer.written("k").await, [1, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_roll_back_was_dropped_can_be_used_with_sea_orm() {
    a_connection_of_sea_orm_can_be_used_after(async |begun, _| {
        let mut rolled_back = pin!(begun.roll_back());
        poll_fn(|context| Poll::Ready(rolled_back.as_mut().poll(context).is_ready())).await;
    })
    .await;
}

/// SQLite has rolled back by itself, and the section is dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_ended_section_was_dropped_can_be_used_with_sea_orm() {
    a_connection_of_sea_orm_can_be_used_after(async |mut begun, fence| {
        DatabaseConnection::step(&mut begun, fence, Step::Fail).await.unwrap();
    })
    .await;
}

/// An early end and a savepoint, with a library that blocks. `savepoint` begins one and rolls it back.
fn the_same_with<C: OnceConnection>(
    connection: &mut C,
    execute: impl Fn(&mut C, &str) -> bool,
    savepoint: impl Fn(&mut C),
) {
    blocking::migrate(connection).unwrap();
    for sql in ["CREATE TABLE done (name TEXT)", "CREATE TABLE counter (name TEXT PRIMARY KEY, n INTEGER)"] {
        assert!(execute(connection, sql));
    }
    assert!(execute(connection, "INSERT INTO counter VALUES ('k', 0)"));
    let (fence, request) = (Fence::new("k", 1), Once::new(Duration::from_secs(60)));
    let body = |connection: &mut C| {
        assert!(execute(connection, "INSERT INTO done VALUES ('first')"));
        assert!(!execute(connection, sql::sqlite::FAIL));
        savepoint(connection);
        assert!(execute(connection, "INSERT INTO done VALUES ('last')"));
        Ok::<u64, Failure>(1)
    };
    let ended = blocking::transaction(&fence, connection, body);
    assert!(is_unknown(&ended), "{ended:?}");
    let ended = blocking::once(&fence, connection, &request, body);
    assert!(is_unknown(&ended), "{ended:?}");
    assert_eq!(connection.find(&fence).unwrap(), None);
    blocking::transaction(&fence, connection, |_| Ok::<(), Failure>(())).unwrap();
}

#[test]
fn after_the_end_of_the_transaction_and_a_savepoint_with_diesel_on_sqlite() {
    let mut connection = <diesel::SqliteConnection as diesel::Connection>::establish(":memory:").unwrap();
    the_same_with(
        &mut connection,
        // Diesel does not notice here that a statement has ended the transaction.
        |connection, sql| diesel::sql_query(sql).execute(connection).is_ok(),
        |connection| {
            let refused = diesel::Connection::transaction(connection, |_| Err::<(), _>(Failure::Refused));
            assert!(matches!(refused, Err(Failure::Refused)), "{refused:?}");
        },
    );
}

#[test]
fn after_the_end_of_the_transaction_and_a_savepoint_with_rusqlite() {
    the_same_with(
        &mut ::rusqlite::Connection::open_in_memory().unwrap(),
        |connection, sql| connection.execute_batch(sql).is_ok(),
        |connection| connection.execute_batch("SAVEPOINT s; ROLLBACK TO s").unwrap(),
    );
}

/// `sea-orm` rolls back all if a nested `begin` is dropped. If the first poll has begun it, all is committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_nested_begin_that_is_dropped_with_sea_orm_on_sqlite() {
    let (pool, observer, _folder) = single_sqlite().await;
    let pool = SqlxSqliteConnector::from_sqlx_sqlite_pool(pool);
    let fence = Fence::new("k", 1);
    let ended = transaction(&fence, &pool, async |tx: &mut DatabaseTransaction| {
        DatabaseConnection::step(tx, &fence, Step::Write).await?;
        {
            let mut nested = pin!(tx.begin());
            poll_fn(|context| Poll::Ready(nested.as_mut().poll(context).is_ready())).await;
        }
        DatabaseConnection::step(tx, &fence, Step::Write).await
    });
    let ended = ended.await;
    let is_committed = ended.is_ok() && observer.written("k").await == [1, 1];
    assert!(is_unknown(&ended) || is_committed, "{ended:?}");
    observer.section(&fence, Plan::default()).await.unwrap();
    transaction(&fence, &pool, async |tx| DatabaseConnection::step(tx, &fence, Step::Write).await)
        .await
        .unwrap();
}

/// The caller learns whether the write was committed, although the body has kept two nested transactions.
async fn nested_transactions_that_are_kept<O: World>(library: On<DatabaseConnection, O>) {
    let (pool, observer) = (library.pool(), library.observer());
    let (fence, request) = (Fence::new("k", 1), Once::new(Duration::from_secs(60)));
    let kept = Mutex::new(Vec::new());
    let body = async |tx: &mut DatabaseTransaction| {
        DatabaseConnection::step(tx, &fence, Step::Write).await?;
        for _ in 0..2 {
            let nested = tx.begin().await?;
            kept.lock().unwrap().push(nested);
        }
        Ok::<u64, Failure>(1)
    };
    let mut written = Vec::new();
    for is_once in [false, true] {
        let ended = if is_once {
            once(&fence, pool, &request, &body).await.map(|done| done.value)
        } else {
            transaction(&fence, pool, &body).await
        };
        kept.lock().unwrap().clear();
        written.extend(ended.is_ok().then_some(1));
        // A transaction that is left would keep this one out.
        observer.section(&Fence::new("other", 1), Plan::default()).await.unwrap();
        assert_eq!(observer.written("k").await, written, "{ended:?}");
        // The connection can be used.
        let refused = library.section(&fence, Plan::ending(End::Refuse)).await;
        assert!(matches!(refused, Err(Failure::Refused)), "{refused:?}");
        observer.section(&Fence::new("other", 1), Plan::default()).await.unwrap();
    }
    library.section(&fence, Plan::default()).await.unwrap();
    assert_eq!(observer.written("k").await, [written, vec![1]].concat());
}

/// Nothing that a section has written is committed by a nested transaction that outlives it.
async fn nested_transactions_that_outlive_a_section<O: World>(
    library: On<DatabaseConnection, O>,
    may_be_dropped: &[bool],
) {
    let observer = library.observer();
    let ends = [1, 2].into_iter().flat_map(|kept| may_be_dropped.iter().map(move |dropped| (kept, *dropped)));
    for (kept, is_dropped) in ends {
        let fence = Fence::new(format!("kept {kept}, dropped {is_dropped}"), 1);
        let mut begun = FencedTransaction::begin(&fence, library.pool()).await.unwrap();
        let mut nested = Vec::new();
        for _ in 0..kept {
            DatabaseConnection::step(&mut begun, &fence, Step::Write).await.unwrap();
            nested.push(begun.begin().await.unwrap());
        }
        if is_dropped {
            drop(begun);
        } else {
            begun.roll_back().await;
        }
        while let Some(nested) = nested.pop() {
            drop(nested.commit().await);
        }
        assert_eq!(observer.written(fence.key()).await, [0; 0]);
        // A transaction that is left would keep it out. The token was not raised.
        library.section(&Fence::new(fence.key(), 0), Plan::default()).await.unwrap();
        observer.section(&Fence::new(fence.key(), 0), Plan::default()).await.unwrap();
        assert_eq!(observer.written(fence.key()).await, [0, 0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_transactions_that_outlive_a_section_on_postgres() {
    nested_transactions_that_outlive_a_section(sea_orm_on_postgres().await.0, &[false, true]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_transactions_that_outlive_a_section_on_mariadb() {
    nested_transactions_that_outlive_a_section(sea_orm_on_mariadb().await.0, &[false]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_transactions_that_outlive_a_section_on_sqlite() {
    let (pool, observer, _folder) = single_sqlite().await;
    let pool = SqlxSqliteConnector::from_sqlx_sqlite_pool(pool);
    nested_transactions_that_outlive_a_section(On::new(pool, observer), &[false, true]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_transactions_that_are_kept_on_postgres() {
    nested_transactions_that_are_kept(sea_orm_on_postgres().await.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_transactions_that_are_kept_on_mariadb() {
    nested_transactions_that_are_kept(sea_orm_on_mariadb().await.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_transactions_that_are_kept_on_sqlite() {
    let (pool, observer, _folder) = single_sqlite().await;
    let pool = SqlxSqliteConnector::from_sqlx_sqlite_pool(pool);
    nested_transactions_that_are_kept(On::new(pool, observer)).await;
}

/// SQLite has rolled back by itself. `sqlx` counts on a transaction until a ROLLBACK succeeds.
async fn a_connection_whose_transaction_has_ended_can_be_used<L: Library<Observer = SqlitePool>>(
    library: &L,
) {
    let (fence, observer) = (Fence::new("k", 1), library.observer());
    let fails = || Plan::before(Step::Fail);
    for plan in [Plan { end: End::Refuse, ..fails() }, fails(), Plan::ending(End::Refuse)] {
        assert!(library.section(&fence, plan).await.is_err());
        // A transaction that is left would keep it out.
        observer.section(&Fence::new("other", 1), Plan::default()).await.unwrap();
    }
    library.section(&fence, Plan::default()).await.unwrap();
    assert_eq!(observer.written("k").await.last(), Some(&1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_transaction_has_ended_can_be_used_with_sqlx() {
    let (pool, observer, _folder) = single_sqlite().await;
    a_connection_whose_transaction_has_ended_can_be_used(&sqlx_at(observer, pool)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_transaction_has_ended_can_be_used_with_sea_orm() {
    let (pool, observer, _folder) = single_sqlite().await;
    let pool = SqlxSqliteConnector::from_sqlx_sqlite_pool(pool);
    a_connection_whose_transaction_has_ended_can_be_used(&On::new(pool, observer)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_transaction_has_ended_can_be_used_with_diesel() {
    let (library, _folder) = diesel_on_sqlite().await;
    a_connection_whose_transaction_has_ended_can_be_used(&library).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_transaction_has_ended_can_be_used_with_rusqlite() {
    let (library, _folder) = rusqlite().await;
    a_connection_whose_transaction_has_ended_can_be_used(&library).await;
}
