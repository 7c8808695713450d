//! A commit that was refused, one that never arrived, and one whose reply was lost.

use std::sync::Arc;
use std::time::Duration;

use diesel::connection::SimpleConnection;
use diesel::{Connection, RunQueryDsl, SqliteConnection};
use distlock_fence::blocking::OnceConnection;
use distlock_fence::{Fence, FenceError, Once, OnceDatabase, Run, blocking};
use distlock_fixtures::{Direction, MariaDbServer, PostgresServer, Proxy};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::{MySqlPool, PgPool, SqlitePool};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::libraries::On;
use crate::libraries::asynchronous::{
    deadpool_postgres, deadpool_postgres_at, diesel_async, diesel_async_at, diesel_async_singly,
    tokio_postgres, tokio_postgres_at,
};
use crate::libraries::blocking::{diesel_at, diesel_on_postgres, diesel_on_sqlite, rusqlite};
use crate::libraries::pools::{
    mysql_async_at, mysql_async_on_mariadb, sea_orm_at, sea_orm_on_mariadb, sea_orm_on_postgres,
    sea_orm_on_sqlite, sqlx_at,
};
use crate::library::{End, Failure, Library, Plan, Step, Steps};
use crate::world::{World, mariadb_at, mariadb_url, postgres_at, postgres_url, sql, sqlite};

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

/// A pooler whose connection to the server breaks behind the commit, and which says so. (Odyssey does with this code.)
async fn a_pooler_says_that_the_connection_has_broken<L: Library>(
    open: impl AsyncFn(PgPool, PgConnectOptions) -> L,
) {
    let (database, options) = postgres_at("read committed").await;
    let pooler = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = options.port(pooler.local_addr().unwrap().port());
    let pooler = tokio::spawn(async move {
        loop {
            let (client, _) = pooler.accept().await.unwrap();
            tokio::spawn(pool_until_the_commit(client));
        }
    });
    let through = open(database, options).await;
    let committed = through.section(&Fence::new("k", 1), Plan::default()).await;
    let unknown = matches!(committed, Err(Failure::Fence(FenceError::OutcomeUnknown { .. })));
    assert!(unknown, "{committed:?}");
    assert_eq!(through.observer().written("k").await, [1]);
    pooler.abort();
}

/// Passes everything on, except the reply to COMMIT.
async fn pool_until_the_commit(mut client: TcpStream) {
    let mut server = TcpStream::connect(PostgresServer::shared().address()).await.unwrap();
    let (mut request, mut reply, mut is_commit) = ([0; 8192], [0; 8192], false);
    let has = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
    loop {
        tokio::select! {
            read = client.read(&mut request) => {
                let Ok(1..) = read else { return };
                let request = &request[..read.unwrap()];
                is_commit |= has(request, b"COMMIT");
                server.write_all(request).await.unwrap();
            }
            read = server.read(&mut reply) => {
                let reply = &reply[..read.unwrap()];
                if is_commit && has(reply, b"COMMIT\0") {
                    break;
                }
                // Those to statements before the commit.
                client.write_all(reply).await.unwrap();
            }
        }
    }
    let fields = b"SERROR\0VERROR\0C08006\0Mthe connection to the server has broken\0\0";
    let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
    client.write_all(&[b"E", &length[..], fields].concat()).await.unwrap();
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

/// Rolls the transaction back at its failed statement. What it has written before is gone, and not what it writes then.
async fn a_body_that_hides_the_end_of_its_transaction_is_not_reported_as_committed<L: Library>(library: &L) {
    let ended = library.section(&Fence::new("k", 1), Plan::ending(End::HideAFailureAndWrite)).await;
    let unknown = matches!(ended, Err(Failure::Fence(FenceError::OutcomeUnknown { .. })));
    assert!(unknown, "{ended:?}");
    assert_eq!(library.observer().written("k").await, [1]);
    // The token was not raised.
    let fence = Fence::new("k", 0);
    library.observer().section(&fence, Plan::default()).await.unwrap();
}

/// No result is stored in a transaction that has ended.
async fn the_result_of_such_a_body_is_not_stored<D: Steps + OnceDatabase>(pool: &D) {
    let (fence, request) = (Fence::new("k", 1), Once::new(Duration::from_secs(60)));
    let Run::First(mut run) = request.begin::<D, u64>(&fence, pool).await.unwrap() else {
        panic!("a replay")
    };
    for step in [Step::Write, Step::Fail, Step::Write] {
        D::step(run.transaction(), &fence, step).await.unwrap();
    }
    let ended = run.commit(&1_u64).await;
    assert!(matches!(ended, Err(FenceError::OutcomeUnknown { .. })), "{ended:?}");
    assert_eq!(pool.find(&fence).await.unwrap(), None);
}

/// The same with a connection of a library that blocks.
fn the_result_of_such_a_body_is_not_stored_by<C: OnceConnection>(connection: &mut C, fail: impl Fn(&mut C)) {
    blocking::migrate(connection).unwrap();
    let (fence, request) = (Fence::new("k", 1), Once::new(Duration::from_secs(60)));
    let ended = blocking::once(&fence, connection, &request, |connection| {
        fail(connection);
        Ok::<_, FenceError>(1)
    });
    assert!(matches!(ended, Err(FenceError::OutcomeUnknown { .. })), "{ended:?}");
    assert_eq!(connection.find(&fence).unwrap(), None);
}

const COUNTER: &str =
    "CREATE TABLE counter (name TEXT PRIMARY KEY, n INTEGER); INSERT INTO counter VALUES ('k', 0)";

#[test]
fn the_result_of_such_a_body_is_not_stored_with_rusqlite() {
    let mut connection = ::rusqlite::Connection::open_in_memory().unwrap();
    connection.execute_batch(COUNTER).unwrap();
    the_result_of_such_a_body_is_not_stored_by(&mut connection, |connection| {
        assert!(connection.execute_batch(sql::sqlite::FAIL).is_err());
    });
}

#[test]
fn the_result_of_such_a_body_is_not_stored_with_diesel() {
    let mut connection = SqliteConnection::establish(":memory:").unwrap();
    connection.batch_execute(COUNTER).unwrap();
    the_result_of_such_a_body_is_not_stored_by(&mut connection, |connection| {
        // Diesel does not notice that this has ended the transaction.
        assert!(diesel::sql_query(sql::sqlite::FAIL).execute(connection).is_err());
    });
}

/// Calls `section`, whose transaction has written to `done`, is the victim of a deadlock at its failed statement.
async fn with_a_deadlock(database: &MySqlPool, section: impl Future<Output = ()>) {
    let rows = "INSERT INTO counter VALUES ('other', 0);
                CREATE TRIGGER counted AFTER INSERT ON done FOR EACH ROW
                    UPDATE counter SET n = n + 1 WHERE name = 'k'";
    sqlx::raw_sql(rows).execute(database).await.unwrap();
    // It has written more, so it is not the victim.
    let mut other = database.begin().await.unwrap();
    let more = "INSERT INTO counter SELECT CONCAT('more ', seq), seq FROM seq_1_to_1000;
                UPDATE counter SET n = 2 WHERE name = 'other'";
    sqlx::raw_sql(more).execute(&mut *other).await.unwrap();
    let deadlock = async {
        let waits = "SELECT count(*) FROM information_schema.processlist
                     WHERE db = DATABASE() AND command <> 'Sleep' AND info LIKE 'UPDATE counter SET n = 1%'";
        while sqlx::query_scalar::<_, i64>(waits).fetch_one(database).await.unwrap() == 0 {
            tokio::task::yield_now().await;
        }
        sqlx::raw_sql("UPDATE counter SET n = 2 WHERE name = 'k'").execute(&mut *other).await.unwrap();
        other.rollback().await.unwrap();
    };
    tokio::join!(section, deadlock);
}

async fn a_body_that_hides_a_deadlock_is_not_reported_as_committed<L: Library<Observer = MySqlPool>>(
    library: &L,
) {
    let section = a_body_that_hides_the_end_of_its_transaction_is_not_reported_as_committed(library);
    with_a_deadlock(library.observer(), section).await;
}

async fn a_result_after_a_hidden_deadlock_is_not_stored<D: Steps + OnceDatabase>(library: &On<D, MySqlPool>) {
    let section = the_result_of_such_a_body_is_not_stored(library.pool());
    with_a_deadlock(library.observer(), section).await;
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

lost_answers! { a_pooler_says_that_the_connection_has_broken:
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

lost_answers! { a_body_that_hides_a_deadlock_is_not_reported_as_committed:
    with_sqlx: &mariadb_at("REPEATABLE READ").await.0;
    with_mysql_async: &mysql_async_on_mariadb().await.0;
    with_sea_orm: &sea_orm_on_mariadb().await.0;
}

lost_answers! { a_result_after_a_hidden_deadlock_is_not_stored:
    with_sqlx: &{ let pool = mariadb_at("REPEATABLE READ").await.0; sqlx_at(pool.clone(), pool) };
    with_mysql_async: &mysql_async_on_mariadb().await.0;
    with_sea_orm: &sea_orm_on_mariadb().await.0;
}

lost_answers! { a_body_that_hides_the_end_of_its_transaction_is_not_reported_as_committed:
    with_sqlx: &sqlite().await.0;
    with_diesel: &diesel_on_sqlite().await.0;
    with_rusqlite: &rusqlite().await.0;
    with_sea_orm: &sea_orm_on_sqlite().await.0;
}

lost_answers! { the_result_of_such_a_body_is_not_stored:
    with_sqlx: &sqlite().await.0;
    with_sea_orm: sea_orm_on_sqlite().await.0.pool();
}
