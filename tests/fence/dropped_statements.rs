//! A caller that is dropped while it waits for a reply of the database. Its connection is used again.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use distlock_fence::{Fence, FencedDatabase, FencedTransaction};
use distlock_fixtures::{BOUND, Direction, MariaDbServer, PostgresServer, Proxy};
use sea_orm::{SqlxMySqlConnector, SqlxPostgresConnector};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, Database, MySqlPool, PgPool, Pool};
use tokio::runtime::Handle;

use crate::world::{World, mariadb_at, postgres_at};

const WRITE: &str = "INSERT INTO done (name, token) VALUES ('k', 1)";

/// Drops this future while the reply to its statement is held.
async fn drop_before_the_reply<T: Send + 'static>(
    proxy: &Proxy,
    waits: impl Future<Output = T> + Send + 'static,
    is_executed: impl AsyncFn() -> bool,
) {
    proxy.hold(Direction::Replies);
    let dropped = tokio::spawn(waits);
    while !is_executed().await {
        tokio::task::yield_now().await;
    }
    dropped.abort();
    assert!(dropped.await.is_err_and(|error| error.is_cancelled()));
    proxy.pass();
}

async fn begin(database: impl FencedDatabase + Send + 'static) {
    FencedTransaction::begin(&Fence::new("k", 1), &database).await.map(drop).unwrap();
}

/// The only connection would be returned with an open transaction, and the write would not be committed.
async fn a_begin_that_is_dropped_on_postgres<D: FencedDatabase + Send + 'static>(
    of: impl FnOnce(PgPool) -> D,
) {
    let (observer, options) = postgres_at("read committed").await;
    let proxy = Proxy::to(&PostgresServer::shared().address());
    // A test before each use would wait for its own reply.
    let pool = PgPoolOptions::new().max_connections(1).test_before_acquire(false).acquire_timeout(BOUND);
    let pool = pool.connect_with(options.port(proxy.address().port())).await.unwrap();
    let open = "SELECT count(*) FROM pg_stat_activity \
                WHERE datname = current_database() AND state = 'idle in transaction'";
    let is_open = async || sqlx::query_scalar::<_, i64>(open).fetch_one(&observer).await.unwrap() > 0;
    drop_before_the_reply(&proxy, begin(of(pool.clone())), is_open).await;

    sqlx::raw_sql(WRITE).execute(&pool).await.unwrap();
    assert_eq!(observer.written("k").await, [1]);
}

/// A pool on MariaDB, and the number of its only connection.
struct Single {
    observer: MySqlPool,
    proxy: Proxy,
    pool: MySqlPool,
    connection: i64,
}

impl Single {
    async fn open(pool: MySqlPoolOptions) -> Self {
        let (observer, options) = mariadb_at("REPEATABLE READ").await;
        let proxy = Proxy::to(&MariaDbServer::shared().address());
        let pool = pool.max_connections(1).test_before_acquire(false).acquire_timeout(BOUND);
        let pool = pool.connect_with(options.port(proxy.address().port())).await.unwrap();
        let connection = "SELECT CAST(CONNECTION_ID() AS SIGNED)";
        let connection = sqlx::query_scalar(connection).fetch_one(&pool).await.unwrap();
        // The pool tests a connection that is returned.
        while pool.num_idle() == 0 {
            tokio::task::yield_now().await;
        }
        Single { observer, proxy, pool, connection }
    }

    /// The number of the last statement on the connection, if it has been executed.
    async fn executed(&self) -> Option<i64> {
        let executed =
            "SELECT query_id FROM information_schema.processlist WHERE id = ? AND command = 'Sleep'";
        sqlx::query_scalar(executed).bind(self.connection).fetch_optional(&self.observer).await.unwrap()
    }

    /// Drops this future while the reply to its next statement is held.
    async fn drop_before_the_reply<T: Send + 'static>(
        &self,
        waits: impl Future<Output = T> + Send + 'static,
    ) {
        let before = self.executed().await.unwrap();
        let is_executed = async || self.executed().await.is_some_and(|executed| executed > before);
        drop_before_the_reply(&self.proxy, waits, is_executed).await;
    }

    async fn write(&self) {
        sqlx::raw_sql(WRITE).execute(&self.pool).await.unwrap();
        assert_eq!(self.observer.written("k").await, [1]);
    }
}

async fn a_begin_that_is_dropped_on_mariadb<D: FencedDatabase + Send + 'static>(
    of: impl FnOnce(MySqlPool) -> D,
) {
    let single = Single::open(MySqlPoolOptions::new()).await;
    single.drop_before_the_reply(begin(of(single.pool.clone()))).await;
    single.write().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_begin_that_is_dropped_leaves_no_transaction_with_sqlx_on_postgres() {
    a_begin_that_is_dropped_on_postgres(|pool| pool).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_begin_that_is_dropped_leaves_no_transaction_with_sqlx_on_mariadb() {
    a_begin_that_is_dropped_on_mariadb(|pool| pool).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_begin_that_is_dropped_leaves_no_transaction_with_sea_orm_on_postgres() {
    a_begin_that_is_dropped_on_postgres(SqlxPostgresConnector::from_sqlx_postgres_pool).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_begin_that_is_dropped_leaves_no_transaction_with_sea_orm_on_mariadb() {
    a_begin_that_is_dropped_on_mariadb(SqlxMySqlConnector::from_sqlx_mysql_pool).await;
}

/// Drops 50 transactions that wait for the only connection of the pool, which is in use.
async fn a_begin_that_is_dropped_leaves_the_queue<DB: Database>(pool: Pool<DB>)
where
    Pool<DB>: FencedDatabase,
{
    let in_use = pool.acquire().await.unwrap();
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..50 {
        let fence = Fence::new("k", 1);
        let mut begun = pin!(FencedTransaction::begin(&fence, &pool));
        assert!(poll_fn(|context| Poll::Ready(begun.as_mut().poll(context).is_pending())).await);
    }
    assert!(
        tasks() <= before,
        "no task waits for the connection, and sends BEGIN before the next live caller"
    );
    drop(in_use);
    begin(pool).await;
}

#[tokio::test]
async fn a_begin_that_is_dropped_leaves_the_queue_of_the_pool_on_postgres() {
    let (_, options) = postgres_at("read committed").await;
    let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(BOUND).connect_with(options);
    a_begin_that_is_dropped_leaves_the_queue(pool.await.unwrap()).await;
}

#[tokio::test]
async fn a_begin_that_is_dropped_leaves_the_queue_of_the_pool_on_mariadb() {
    let (_, options) = mariadb_at("REPEATABLE READ").await;
    let pool = MySqlPoolOptions::new().max_connections(1).acquire_timeout(BOUND).connect_with(options);
    a_begin_that_is_dropped_leaves_the_queue(pool.await.unwrap()).await;
}

/// `sqlx` 0.8 loses count of the replies if it is dropped while it prepares a statement, and waits for one that never
/// comes. The pool of the book closes such a connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_is_dropped_while_it_is_prepared_costs_a_connection_of_mariadb() {
    let options = MySqlPoolOptions::new().after_release(|connection, _| {
        Box::pin(async move {
            let answer = tokio::time::timeout(Duration::from_secs(1), connection.ping()).await;
            answer.unwrap_or_else(|elapsed| Err(sqlx::Error::Io(elapsed.into()))).map(|()| true)
        })
    });
    let single = Single::open(options).await;
    let (pool, fence) = (single.pool.clone(), Fence::new("k", 1));
    let mut transaction = FencedDatabase::begin(&pool, &fence).await.unwrap();
    let check = async move { pool.fence(&mut transaction, &fence).await };
    single.drop_before_the_reply(check).await;
    single.write().await;
    assert_eq!(single.proxy.accepted(), 2, "if sqlx keeps count, the book no longer has to mention it");
}
