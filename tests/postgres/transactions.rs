//! The lock and its protected data in one database: only the holder of the lock can commit a transaction.

use std::time::Duration;

use distlock::LockManager;
use distlock_fixtures::PostgresServer;
use distlock_tests::eventually;
use tokio_postgres::Client;

use crate::each_store::LONG;
use crate::postgres::{in_schema, manager};

async fn place() -> (&'static PostgresServer, String, LockManager) {
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

/// Waits until a process is in the queue.
async fn until_somebody_waits(server: &PostgresServer, schema: &str) {
    let waits = async || server.residue(schema, "").await.iter().any(|left| left.contains("awaited"));
    eventually("somebody waits", waits).await;
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

/// Whatever happens to the lock, no other process gets it before the transaction has ended.
#[tokio::test(flavor = "multi_thread")]
async fn the_lock_is_given_to_nobody_before_the_transaction_has_ended() {
    let (server, schema, one) = place().await;
    let other = manager(&server.url(), &schema).await;
    let client = server.admin().await;
    let guard = one.lock("order:42").fenced().acquire().await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    asserts(&client, &schema, guard.fencing_token().unwrap().get()).await.unwrap();
    // The renewal does not wait for the transaction.
    guard.extend(LONG).await.unwrap();
    // The lock is released by force while another process waits for it.
    assert!(other.force_release("order:42").await.unwrap());
    let error = other.lock("order:42").no_wait().acquire().await.unwrap_err();
    assert!(error.is_busy() && error.to_string().contains("a transaction that asserts it"), "{error:?}");
    let next = tokio::spawn(other.lock("order:42").wait(LONG).fenced().acquire());
    until_somebody_waits(server, &schema).await;
    let third = manager(&server.url(), &schema).await;
    for request in [third.lock("order:42").shared(), third.lock("order:42").max_holders(2)] {
        assert!(request.no_wait().acquire().await.unwrap_err().is_busy());
    }
    assert!(!next.is_finished());
    client.batch_execute("COMMIT").await.unwrap();
    let next = next.await.unwrap().unwrap();
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
    release.await.unwrap().unwrap();
    client.batch_execute("COMMIT").await.unwrap();
    eventually("it is free", async || server.residue(&schema, "").await.is_empty()).await;
}

/// A transaction with an old snapshot does not see which process has acquired the lock since then.
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

/// A release before the end of the transaction grants the lock to no waiter yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_does_not_wait_for_the_transaction_and_whoever_waits_gets_the_lock_after_it() {
    let (server, schema, one) = place().await;
    let other = manager(&server.url(), &schema).await;
    let client = server.admin().await;
    let guard = one.lock("order:42").fenced().acquire().await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    asserts(&client, &schema, guard.fencing_token().unwrap().get()).await.unwrap();
    // One process waits at the release, and one requests the lock after it.
    let mut waiting = tokio::task::JoinSet::new();
    waiting.spawn(other.lock("order:42").wait(LONG).fenced().acquire());
    until_somebody_waits(server, &schema).await;
    guard.release().await.unwrap();
    waiting.spawn(one.lock("order:42").wait(LONG).fenced().acquire());
    assert!(one.lock("order:42").try_acquire().await.unwrap().is_none());
    assert!(waiting.try_join_next().is_none());
    client.batch_execute("COMMIT").await.unwrap();
    while let Some(next) = waiting.join_next().await {
        next.unwrap().unwrap().release().await.unwrap();
    }
}

/// Ten slow transactions run. One process waits for their keys, holds another key, and has other work.
#[tokio::test(flavor = "multi_thread")]
async fn transactions_that_take_their_time_cost_a_process_that_waits_for_their_keys_no_other_lock() {
    let (server, schema, owner) = place().await;
    // As impatient as by default.
    let process = LockManager::builder().url(in_schema(&server.url(), &schema)).connect().await.unwrap();
    let mut transactions = Vec::new();
    for number in 0..10 {
        let guard = owner.lock(format!("slow:{number}")).fenced().acquire().await.unwrap();
        let client = server.admin().await;
        let token = guard.fencing_token().unwrap().get();
        let asserts = format!("BEGIN; SELECT {schema}.assert_held_1('slow:{number}', {token})");
        client.batch_execute(&asserts).await.unwrap();
        guard.release().await.unwrap();
        transactions.push(client);
    }
    let ttl = Duration::from_secs(3);
    let held = process.lock("held").ttl(ttl).acquire().await.unwrap();
    let (mut patient, mut impatient) = (tokio::task::JoinSet::new(), tokio::task::JoinSet::new());
    for number in 0..10 {
        let request = process.lock(format!("slow:{number}"));
        if number % 2 == 0 {
            patient.spawn(request.wait(LONG).fenced().acquire());
        } else {
            impatient.spawn(request.wait(ttl * 2).fenced().acquire());
        }
    }
    for number in 0..20 {
        process.lock(format!("free:{number}")).acquire().await.unwrap().release().await.unwrap();
    }
    while let Some(result) = impatient.join_next().await {
        let error = result.unwrap().unwrap_err();
        assert!(error.is_busy(), "{error:?}");
    }
    // Twice the ttl has passed. The lease was renewed, or the lock is lost now.
    held.check().unwrap();
    assert!(patient.try_join_next().is_none());
    for client in &transactions {
        client.batch_execute("COMMIT").await.unwrap();
    }
    while let Some(result) = patient.join_next().await {
        result.unwrap().unwrap().release().await.unwrap();
    }
    held.release().await.unwrap();
    eventually("nothing is left", async || server.residue(&schema, "").await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_row_a_transaction_has_locked_is_busy() {
    let (server, schema, manager) = place().await;
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
    let client = server.admin().await;
    client.batch_execute(&format!("BEGIN; SELECT FROM {schema}.lock_1 FOR UPDATE")).await.unwrap();
    for request in [
        manager.lock("k").no_wait(),
        manager.lock("k").wait(Duration::from_secs(2)),
        manager.lock("k").shared().no_wait(),
    ] {
        let error = request.acquire().await.unwrap_err();
        assert!(error.is_busy() && error.to_string().contains("has locked its row"), "{error:?}");
    }
    let error = manager.lock_all(["a", "k"]).no_wait().acquire().await.unwrap_err();
    assert!(error.is_busy(), "{error:?}");
    let next = tokio::spawn(manager.lock("k").wait(LONG).acquire());
    client.batch_execute("COMMIT").await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    eventually("nothing is left", async || server.residue(&schema, "").await.is_empty()).await;
}
