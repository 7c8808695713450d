//! The lock and what it protects in one database: a transaction is committed only by who holds the lock.

use std::time::Duration;

use distlock_fixtures::PostgresServer;
use distlock_tests::eventually;
use tokio_postgres::Client;

use crate::{LONG, manager};

async fn place() -> (&'static PostgresServer, String, distlock::LockManager) {
    let server = PostgresServer::shared();
    let schema = PostgresServer::unused_schema();
    let manager = manager(&server.url(), &schema).await;
    (server, schema, manager)
}

async fn asserts(client: &Client, schema: &str, token: u64) -> Result<(), String> {
    let sql = format!("SELECT {schema}.assert_held_1('order:42', {token})");
    let said = client.batch_execute(&sql).await;
    said.map_err(|error| error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned()))
}

/// A session waits for a row in this function.
async fn until_it_waits(server: &PostgresServer, schema: &str, function: &str) {
    let waits = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'";
    let (watching, function) = (server.admin().await, format!("\"{schema}\".{function}"));
    let it_waits = async || !watching.query(waits, &[&function]).await.unwrap().is_empty();
    eventually("it waits for the row", it_waits).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_good_while_its_owner_holds_the_lock_and_not_after() {
    let (server, schema, manager) = place().await;
    let client = server.admin().await;
    assert_eq!(asserts(&client, &schema, 1).await, Err("DL002".to_owned()));
    let guard = manager.lock("order:42").fenced().acquire().await.unwrap();
    let token = guard.fencing_token().unwrap().get();
    asserts(&client, &schema, token).await.unwrap();
    guard.extend(LONG).await.unwrap();
    asserts(&client, &schema, token).await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(asserts(&client, &schema, token).await, Err("DL002".to_owned()));
    let unfenced = manager.lock("order:42").acquire().await.unwrap();
    assert_eq!(asserts(&client, &schema, token).await, Err("DL002".to_owned()));
    unfenced.release().await.unwrap();
    let next = manager.lock("order:42").fenced().acquire().await.unwrap();
    assert_eq!(asserts(&client, &schema, token).await, Err("DL002".to_owned()));
    asserts(&client, &schema, next.fencing_token().unwrap().get()).await.unwrap();
    assert!(manager.force_release("order:42").await.unwrap());
    let token = next.fencing_token().unwrap().get();
    assert_eq!(asserts(&client, &schema, token).await, Err("DL002".to_owned()));
}

/// Whatever happens to the lock meanwhile: nobody else gets it before the transaction has ended.
#[tokio::test(flavor = "multi_thread")]
async fn the_lock_is_given_to_nobody_before_the_transaction_has_ended() {
    let (server, schema, one) = place().await;
    let other = manager(&server.url(), &schema).await;
    let client = server.admin().await;
    let guard = one.lock("order:42").fenced().acquire().await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    asserts(&client, &schema, guard.fencing_token().unwrap().get()).await.unwrap();
    // Its renewal does not wait for the transaction.
    guard.extend(LONG).await.unwrap();
    let forced = tokio::spawn(async move {
        let _guard = guard;
        // Refused while the transaction has the row, so it is tried again.
        while !other.force_release("order:42").await.is_ok_and(|held| held) {}
        other.lock("order:42").wait(LONG).fenced().acquire().await.unwrap()
    });
    until_it_waits(server, &schema, "force_release_1").await;
    assert!(!forced.is_finished());
    client.batch_execute("COMMIT").await.unwrap();
    let next = forced.await.unwrap();
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn other_keys_are_served_while_a_transaction_has_one() {
    let (server, schema, one) = place().await;
    let client = server.admin().await;
    let guard = one.lock("order:42").fenced().acquire().await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    asserts(&client, &schema, guard.fencing_token().unwrap().get()).await.unwrap();
    let release = tokio::spawn(guard.release());
    for round in 0..20 {
        let other = one.lock(format!("other:{round}")).wait(Duration::from_secs(20)).acquire().await.unwrap();
        other.release().await.unwrap();
    }
    client.batch_execute("COMMIT").await.unwrap();
    // Not confirmed while the transaction has the row, but repeated.
    let released = release.await.unwrap();
    assert!(released.is_ok() || released.is_err_and(|error| error.is_unavailable()));
    eventually("it is free", async || server.residue(&schema, "").await.is_empty()).await;
}

/// A transaction that sees what it saw first does not see who has got the lock since.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeatable_read_is_no_way_round_the_assertion() {
    let (server, schema, manager) = place().await;
    let client = server.admin().await;
    let guard = manager.lock("order:42").fenced().acquire().await.unwrap();
    let token = guard.fencing_token().unwrap().get();
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    client.batch_execute(&format!("SELECT FROM {schema}.lock_1")).await.unwrap();
    guard.release().await.unwrap();
    let next = manager.lock("order:42").fenced().acquire().await.unwrap();
    assert_eq!(asserts(&client, &schema, token).await, Err("40001".to_owned()));
    client.batch_execute("ROLLBACK").await.unwrap();
    next.release().await.unwrap();
}

/// Who releases before the transaction has ended gives the lock to nobody yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_does_not_wait_for_the_transaction_and_an_acquisition_does() {
    let (server, schema, one) = place().await;
    let other = manager(&server.url(), &schema).await;
    let client = server.admin().await;
    let guard = one.lock("order:42").fenced().acquire().await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    asserts(&client, &schema, guard.fencing_token().unwrap().get()).await.unwrap();
    guard.release().await.unwrap();
    let next = tokio::spawn(other.lock("order:42").wait(LONG).fenced().acquire());
    until_it_waits(server, &schema, "acquire_1").await;
    assert!(!next.is_finished());
    client.batch_execute("COMMIT").await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
}
