//! kill −9 of waiters: a dead entry in the queue costs the next one no more than the claim time.

use std::time::{Duration, Instant};

use distlock_tests::{LockClient, RedisServer, residue, until_waiting};

use super::{LONG, connect};

const CLIENT: &str = env!("CARGO_BIN_EXE_lock-client");

/// Claim time (3 s) and jitter, with room for a loaded machine.
const CLAIM: Duration = Duration::from_secs(8);

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_waiter_delays_the_next_by_at_most_the_claim_time() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
    let mut dead = LockClient::connect(CLIENT, &server.url());
    dead.send("acquire k 600000 600000");
    until_waiting(&manager, "k", 1).await;
    let other = connect(&server).await;
    let next = tokio::spawn(async move { other.lock("k").ttl(LONG).wait(LONG).acquire().await });
    until_waiting(&manager, "k", 2).await;
    dead.kill9();
    let start = Instant::now();
    guard.release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    assert!(start.elapsed() < CLAIM, "{:?}", start.elapsed());
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_waiter_leaves_a_free_lock_free() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
    let mut dead = LockClient::connect(CLIENT, &server.url());
    dead.send("acquire k 600000 600000");
    until_waiting(&manager, "k", 1).await;
    dead.kill9();
    guard.release().await.unwrap();
    let start = Instant::now();
    manager.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
    assert!(start.elapsed() < CLAIM, "{:?}", start.elapsed());
}
