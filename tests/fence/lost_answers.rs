//! A commit that was refused, one that never arrived, and one whose answer was lost.

use distlock_fence::{Fence, FenceError, FencedDatabase, transaction};
use distlock_fixtures::{Direction, MariaDbServer, PostgresServer, Proxy};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::postgres::PgPoolOptions;
use sqlx::{MySqlPool, PgPool};

use crate::world::{Failure, World, mariadb_at, postgres_at, sqlite};

/// The connection is cut in the body: nothing was committed, and whoever ran the body knows it.
async fn cut_before_the_commit<D: World>(database: &D, through: &D, proxy: &Proxy) {
    let fence = Fence::new("k", 1);
    let section = transaction(&fence, through, async |tx| {
        D::write(tx, &fence).await?;
        proxy.cut();
        Ok(D::write(tx, &fence).await?)
    });
    let cut = section.await;
    assert!(matches!(cut, Err(Failure::Statement(_))), "{cut:?}");
    assert_eq!(database.written("k").await, [0; 0]);
}

/// The connection is cut when the commit was applied, and before its answer has arrived.
async fn cut_after<D: World>(
    database: &D,
    proxy: &Proxy,
    commit: impl Future<Output = Result<(), FenceError>>,
) {
    let cut = async {
        while database.written("k").await.is_empty() {
            tokio::task::yield_now().await;
        }
        proxy.cut();
    };
    let (committed, ()) = tokio::join!(commit, cut);
    assert!(matches!(committed, Err(FenceError::OutcomeUnknown { .. })), "{committed:?}");
    assert_eq!(database.written("k").await, [1]);
}

/// A transaction that has written.
async fn begun<D: World>(through: &D, fence: &Fence) -> D::Transaction {
    let mut tx = through.begin(fence).await.unwrap();
    D::fence(&mut tx, fence).await.unwrap();
    D::write(&mut tx, fence).await.unwrap();
    tx
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mariadb_tells_a_lost_commit_from_one_that_was_not_sent() {
    let (database, options) = mariadb_at("REPEATABLE READ").await;
    let proxy = Proxy::to(&MariaDbServer::shared().address());
    let options = options.port(proxy.address().port());
    let through = MySqlPoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    cut_before_the_commit(&database, &through, &proxy).await;

    let fence = Fence::new("k", 1);
    let tx = begun(&through, &fence).await;
    proxy.hold(Direction::Replies);
    cut_after(&database, &proxy, MySqlPool::commit(tx, &fence)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_tells_a_lost_commit_from_one_that_was_not_sent() {
    let (database, options) = postgres_at("read committed").await;
    let proxy = Proxy::to(&PostgresServer::shared().address());
    let options = options.port(proxy.address().port());
    let through = PgPoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    cut_before_the_commit(&database, &through, &proxy).await;

    // COMMIT, which is not the first command of `commit`, waits for an advisory lock until its answer will be lost.
    let slow_commit = "CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS
                           'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END';
                       CREATE CONSTRAINT TRIGGER pause AFTER INSERT ON done DEFERRABLE INITIALLY DEFERRED
                           FOR EACH ROW EXECUTE FUNCTION pause()";
    sqlx::raw_sql(slow_commit).execute(&database).await.unwrap();
    let mut brake = database.acquire().await.unwrap();
    sqlx::raw_sql("SELECT pg_advisory_lock(1)").execute(&mut *brake).await.unwrap();
    let fence = Fence::new("k", 1);
    let tx = begun(&through, &fence).await;
    let lose_the_answer = async {
        let waits = "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database
                     WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted";
        while sqlx::query_scalar::<_, i64>(waits).fetch_one(&database).await.unwrap() == 0 {
            tokio::task::yield_now().await;
        }
        proxy.hold(Direction::Replies);
        sqlx::raw_sql("SELECT pg_advisory_unlock(1)").execute(&mut *brake).await.unwrap();
    };
    let commit = async { tokio::join!(PgPool::commit(tx, &fence), lose_the_answer).0 };
    cut_after(&database, &proxy, commit).await;
}

/// A constraint that is checked by the commit: refused, and known to be.
#[tokio::test]
async fn a_commit_that_postgres_refuses_is_not_committed() {
    let (database, _options) = postgres_at("read committed").await;
    let unique = "ALTER TABLE done ADD UNIQUE (name) DEFERRABLE INITIALLY DEFERRED";
    sqlx::raw_sql(unique).execute(&database).await.unwrap();
    let fence = Fence::new("k", 1);
    let twice = transaction(&fence, &database, async |tx| {
        PgPool::write(tx, &fence).await?;
        Ok::<_, Failure>(PgPool::write(tx, &fence).await?)
    });
    let twice = twice.await;
    assert!(matches!(twice, Err(Failure::Fence(FenceError::NotCommitted { .. }))), "{twice:?}");
    assert_eq!(database.written("k").await, [0; 0]);
}

/// PostgreSQL answers COMMIT after a failed statement by a rollback, which is no error.
#[tokio::test]
async fn a_body_that_hides_a_failed_statement_is_not_committed() {
    let (database, _options) = postgres_at("read committed").await;
    let fence = Fence::new("k", 1);
    let hidden = transaction(&fence, &database, async |tx| {
        sqlx::query("INSERT INTO done (name, token) VALUES ('k', 1)").execute(&mut *tx).await?;
        assert!(sqlx::query("SELECT 1 / 0").execute(&mut *tx).await.is_err());
        Ok::<_, Failure>(())
    });
    let hidden = hidden.await;
    assert!(matches!(hidden, Err(Failure::Fence(FenceError::NotCommitted { .. }))), "{hidden:?}");
    assert_eq!(database.written("k").await, [0; 0]);
}

/// Foreign keys that are checked by the commit.
#[tokio::test]
async fn a_commit_that_sqlite_refuses_is_not_committed() {
    let (database, _folder) = sqlite().await;
    let child = "CREATE TABLE child (of TEXT REFERENCES counter (name) DEFERRABLE INITIALLY DEFERRED)";
    sqlx::raw_sql(child).execute(&database).await.unwrap();
    let fence = Fence::new("k", 1);
    let orphan = transaction(&fence, &database, async |tx| {
        sqlx::query("INSERT INTO done (name, token) VALUES ('k', 1)").execute(&mut *tx).await?;
        sqlx::query("INSERT INTO child VALUES ('nobody')").execute(&mut *tx).await?;
        Ok::<_, Failure>(())
    });
    let orphan = orphan.await;
    assert!(matches!(orphan, Err(Failure::Fence(FenceError::NotCommitted { .. }))), "{orphan:?}");
    assert_eq!(database.written("k").await, [0; 0]);
}
