//! The lock and its protected data in one database: only the holder of the lock can commit a transaction.

use std::time::Duration;

use distlock::testing::eventually;
use distlock_fixtures::MariaDbServer;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::each_store::manager;
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

/// The default of the server, or of another program, does not apply to the locks.
#[tokio::test]
async fn locks_are_written_where_transactions_are_read_only_by_default() {
    let server = MariaDbServer::start();
    drop(manager(&server.url()).await);
    server.run("SET GLOBAL tx_read_only = 1").await;
    let manager = manager(&server.url()).await;
    manager.lock("k").fenced().acquire().await.unwrap().release().await.unwrap();
}
