//! The lock and its protected data in one database: only the holder of the lock can commit a transaction.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use distlock::LockManager;
use distlock::store::kit::connection::ConnectionOptions;
use distlock::store::{
    Acquire, AcquireReply, LockStore, Release, ReleaseReply, Renew, RenewReply, StoreError, StoreEvents,
    StoredLock,
};
use distlock::testing::eventually;
use distlock_fixtures::MariaDbServer;
use distlock_mysql::MysqlStore;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::each_store::{LONG, manager};
use crate::mysql::{ROWS_AWAITED, tables_of_its_own};

/// The statement of the documentation. Returns whether the lock is held with this token.
async fn asserts(conn: &mut Conn, prefix: &str, token: u64) -> bool {
    let documentation = include_str!("../../docs/mysql.md");
    let begin = documentation.find("SELECT COUNT(*)").expect("docs/mysql.md has the statement");
    let statement = documentation[begin..].split(';').next().unwrap();
    let statement = statement.replace("distlock_", prefix).replace('7', &token.to_string());
    conn.query_first::<u64, _>(statement).await.unwrap() == Some(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_good_while_its_owner_holds_the_lock_and_not_after() {
    let server = MariaDbServer::shared();
    let (url, prefix) = tables_of_its_own(server);
    let manager = manager(&url).await;
    let mut conn = server.admin().await;
    assert!(!asserts(&mut conn, &prefix, 1).await);
    let guard = manager.lock("order:42").fenced().acquire().await.unwrap();
    let token = guard.fencing_token().unwrap().get();
    assert!(asserts(&mut conn, &prefix, token).await);
    guard.extend(Duration::from_secs(600)).await.unwrap();
    assert!(asserts(&mut conn, &prefix, token).await);
    guard.release().await.unwrap();
    assert!(!asserts(&mut conn, &prefix, token).await);
    let unfenced = manager.lock("order:42").acquire().await.unwrap();
    assert!(!asserts(&mut conn, &prefix, token).await);
    unfenced.release().await.unwrap();
    let next = manager.lock("order:42").fenced().acquire().await.unwrap();
    assert!(!asserts(&mut conn, &prefix, token).await);
    let token = next.fencing_token().unwrap().get();
    assert!(asserts(&mut conn, &prefix, token).await);
    assert!(manager.force_release("order:42").await.unwrap());
    assert!(!asserts(&mut conn, &prefix, token).await);
    // The token does not become valid again because another process holds the lock, as a kind without tokens.
    for reader in [manager.lock("order:42").shared(), manager.lock("order:42").max_holders(2)] {
        let reader = reader.acquire().await.unwrap();
        assert!(!asserts(&mut conn, &prefix, token).await);
        reader.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_is_given_to_nobody_before_the_transaction_has_ended() {
    let server = MariaDbServer::shared();
    let (url, prefix) = tables_of_its_own(server);
    let (one, other) = (manager(&url).await, manager(&url).await);
    let guard = one.lock("order:42").ttl(Duration::from_secs(1)).no_renew().fenced().acquire().await.unwrap();
    let mut conn = server.admin().await;
    conn.query_drop("BEGIN").await.unwrap();
    assert!(asserts(&mut conn, &prefix, guard.fencing_token().unwrap().get()).await);
    // Its lease ends while the transaction continues.
    guard.lost().await;
    let next = tokio::spawn(other.lock("order:42").wait(Duration::from_secs(60)).fenced().acquire());
    eventually("it waits for the row", async || server.number(ROWS_AWAITED).await > 0).await;
    assert!(!next.is_finished());
    conn.query_drop("COMMIT").await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
}

/// Their renewals are one command, which fails as long as one row is locked.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_outlasts_its_lease_takes_no_other_lease_with_it() {
    let server = MariaDbServer::shared();
    let (url, prefix) = tables_of_its_own(server);
    let manager = manager(&url).await;
    let ttl = Duration::from_secs(9);
    let acquire = async |key: &str| manager.lock(key).ttl(ttl).fenced().acquire().await.unwrap();
    // Without renewals, the others would end first. The locked one is renewed together with the one before it.
    let others = [acquire("order:43").await, acquire("order:44").await];
    let guard = acquire("order:42").await;
    let mut conn = server.admin().await;
    conn.query_drop("BEGIN").await.unwrap();
    assert!(asserts(&mut conn, &prefix, guard.fencing_token().unwrap().get()).await);
    assert!(guard.lost().await.is_lost());
    others.iter().for_each(|other| other.check().unwrap());
    conn.query_drop("COMMIT").await.unwrap();
}

/// The store, and the errors of its acquisitions. No request shows them, because the manager repeats these commands.
#[derive(Debug)]
struct Watched(MysqlStore, Arc<Mutex<Vec<String>>>);

impl LockStore for Watched {
    fn describe(&self) -> String {
        self.0.describe()
    }

    async fn acquire(&self, request: &Acquire) -> Result<AcquireReply, StoreError> {
        self.0.acquire(request).await.inspect_err(|error| self.1.lock().unwrap().push(error.to_string()))
    }

    async fn renew(&self, request: &Renew) -> Result<RenewReply, StoreError> {
        self.0.renew(request).await
    }

    async fn release(&self, request: &Release) -> Result<ReleaseReply, StoreError> {
        self.0.release(request).await
    }

    async fn inspect(&self, key: &str) -> Result<Option<StoredLock>, StoreError> {
        self.0.inspect(key).await
    }

    async fn force_release(&self, key: &str) -> Result<bool, StoreError> {
        self.0.force_release(key).await
    }

    async fn run(&self, events: StoreEvents) {
        self.0.run(events).await;
    }
}

/// A statement whose row was changed while it waited for the row is refused (error 1020), by default in MariaDB 11.6.2
/// and later. Only the statement for keys without a known row is concerned, because it reads another table first.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_whose_row_was_changed_while_it_waited_is_repeated() {
    let server = MariaDbServer::start();
    server.run("SET GLOBAL innodb_snapshot_isolation = 1").await;
    manager(&server.url()).await.lock("k").acquire().await.unwrap().release().await.unwrap();
    let mut conn = server.admin().await;
    conn.query_drop("BEGIN").await.unwrap();
    conn.query_drop("UPDATE distlock_lock_1 SET fence = fence + 1").await.unwrap();
    let errors = Arc::default();
    let store = MysqlStore::new(&server.url(), &ConnectionOptions::default()).unwrap();
    let fresh = LockManager::builder().store(Watched(store, Arc::clone(&errors))).unavailable_after(LONG);
    let fresh = fresh.connect().await.unwrap();
    let request = tokio::spawn(fresh.lock("k").acquire());
    eventually("it waits for the row", async || server.number(ROWS_AWAITED).await > 0).await;
    conn.query_drop("COMMIT").await.unwrap();
    request.await.unwrap().unwrap().release().await.unwrap();
    let errors = errors.lock().unwrap();
    assert!(!errors.iter().any(|error| error.contains("error 1020")), "{errors:?}");
}

/// The default of the server, or of another program, does not apply to the locks.
#[tokio::test]
async fn locks_are_written_where_transactions_are_read_only_by_default() {
    let server = MariaDbServer::start();
    drop(manager(&server.url()).await);
    server.run("SET GLOBAL tx_read_only = 1").await;
    let manager = manager(&server.url()).await;
    manager.lock("k").fenced().acquire().await.unwrap().release().await.unwrap();
}
