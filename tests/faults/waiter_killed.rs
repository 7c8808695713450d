//! kill −9 of waiters: a dead queue entry delays the next waiter by at most the claim time.

use std::time::{Duration, Instant};

use distlock_tests::{LockClient, RedisServer, residue, until_waiting};

use super::{LONG, connect};

const CLIENT: &str = env!("CARGO_BIN_EXE_lock-client");

/// Claim time (3 s) and jitter, with a margin for a busy machine.
const CLAIM: Duration = Duration::from_secs(30);

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

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_dead_entries_in_front_are_skipped_by_the_release_itself() {
    let server = RedisServer::start();
    let (manager, other) = (connect(&server).await, connect(&server).await);
    let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
    for number in 0..100 {
        // Queue entries of dead processes. They have not expired, and no process receives their pushes.
        let token = format!("dl1:gone{number}:1");
        server.raw(&["RPUSH", "dl1:q:k", &token]);
        server.raw(&["HSET", "dl1:e:k", &token, "9999999999999999 3000 0 w e"]);
    }
    let next = tokio::spawn(async move { other.lock("k").ttl(LONG).wait(LONG).acquire().await });
    until_waiting(&manager, "k", 101).await;
    let (before, start) = (server.calls("evalsha"), Instant::now());
    guard.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    // One command: no waiter had to ask again. (There may be a heartbeat, every two seconds.)
    let (calls, took) = (server.calls("evalsha") - before, start.elapsed());
    assert!(calls <= 2 + took.as_secs() / 2, "{calls} commands in {took:?}");
    next.release().await.unwrap();
    residue::none(&server).await;
}
