//! The tables of fences for a role that may not create them. Migrations of sqlx under a lock, with sqlx's own lock
//! switched off. Instances that start at the same time migrate once, even if a pooler gives each transaction of the
//! lock another connection. (Migrations of sqlx themselves do not work through such a pooler, because the names of
//! prepared statements collide.)

use std::path::{Path, PathBuf};
use std::time::Duration;

use distlock::LockManager;
use distlock_fence::{Fence, FenceError};
use distlock_fixtures::{PgBouncer, PostgresServer};
use sqlx::PgPool;
use sqlx::migrate::Migrator;
use tokio::task::JoinSet;

use crate::world::postgres_at;

/// Two steps, each of which fails if it is executed twice.
fn steps(folder: &Path) {
    std::fs::write(folder.join("1_accounts.sql"), "CREATE TABLE account (id BIGINT PRIMARY KEY);").unwrap();
    std::fs::write(folder.join("2_first.sql"), "INSERT INTO account VALUES (1);").unwrap();
}

/// One instance of a service, with its own manager and pool.
async fn start(locks: String, database: String, folder: PathBuf) {
    let locks = LockManager::connect(&locks).await.unwrap();
    let pool = PgPool::connect(&database).await.unwrap();
    let mut migrator = Migrator::new(folder).await.unwrap();
    migrator.set_locking(false);
    let request = locks.lock("migrate").wait(Duration::from_secs(60));
    request.run(async |_held| migrator.run(&pool).await).await.unwrap().unwrap();
}

async fn four_instances_migrate_once(server: &PostgresServer, locks: &str, database: &str) {
    let folder = tempfile::tempdir().unwrap();
    steps(folder.path());
    let mut instances = JoinSet::new();
    for _ in 0..4 {
        instances.spawn(start(locks.to_owned(), database.to_owned(), folder.path().to_owned()));
    }
    while let Some(ended) = instances.join_next().await {
        ended.unwrap();
    }
    assert_eq!(server.rows("SELECT id FROM account").await.len(), 1);
    assert_eq!(server.rows("SELECT version FROM _sqlx_migrations WHERE success").await.len(), 2);
    // No instance has taken the lock of sqlx.
    assert_eq!(server.rows("SELECT FROM pg_locks WHERE locktype = 'advisory'").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_instances_migrate_once_on_postgres() {
    let server = PostgresServer::start();
    four_instances_migrate_once(&server, &server.url(), &server.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_instances_migrate_once_with_the_lock_behind_a_pooler() {
    let server = PostgresServer::start();
    let pooler = PgBouncer::to(&server);
    let locks = format!("{}?listen=off", pooler.url());
    four_instances_migrate_once(&server, &locks, &server.url()).await;
}

/// A program calls `migrate` at every start, with a role that has the rights of the book.
#[tokio::test]
async fn the_tables_that_exist_need_no_right_to_make_them() {
    let (owner, options) = postgres_at("read committed").await;
    let writer = "REVOKE CREATE ON SCHEMA public FROM PUBLIC;
                  CREATE ROLE fence_writer;
                  GRANT SELECT, INSERT, UPDATE ON distlock_fence TO fence_writer";
    sqlx::raw_sql(writer).execute(&owner).await.unwrap();
    let pool = PgPool::connect_with(options.options([("role", "fence_writer")])).await.unwrap();
    distlock_fence::migrate(&pool).await.unwrap();
    distlock_fence::transaction(&Fence::new("k", 1), &pool, async |_| Ok::<_, FenceError>(())).await.unwrap();
    sqlx::raw_sql("DROP TABLE distlock_once").execute(&owner).await.unwrap();
    let error = distlock_fence::migrate(&pool).await.unwrap_err();
    assert!(error.to_string().contains("permission denied"), "{error}");
}
