//! `min-replicas-to-write`: a master without enough replicas refuses every write until they are back, as a new master
//! does for some seconds after a fail-over. This state is temporary: no request fails because of it, and no lock is
//! left.

use std::time::Duration;

use distlock_tests::{RedisServer, eventually, residue, until_renewed, until_waiting};

use super::{LONG, SOON, assert_says, assert_unavailable, connect};

fn ask_for(server: &RedisServer, replicas: &str) {
    server.raw(&["CONFIG", "SET", "min-replicas-to-write", replicas]);
}

async fn until_refused(server: &RedisServer) {
    eventually("it was refused", async || {
        let info = server.raw(&["INFO", "errorstats"]);
        format!("{info:?}").contains("NOREPLICAS")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_repeated_until_the_lock_is_gone() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
    ask_for(&server, "1");
    // The result does not matter, because the release was not possible yet.
    drop(guard.release().await);
    assert_eq!(server.keys(), ["k"]);
    ask_for(&server, "0");
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_goes_on_waiting() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    ask_for(&server, "1");
    let waiter = tokio::spawn(async move { one.lock("k").wait(LONG).acquire().await });
    until_refused(&server).await;
    assert!(!waiter.is_finished());
    ask_for(&server, "0");
    waiter.await.unwrap().unwrap().release().await.unwrap();
    // A request that is already queued also waits.
    let guard = other.lock("k").ttl(LONG).acquire().await.unwrap();
    let next = connect(&server).await;
    let waiter = tokio::spawn(async move { next.lock("k").wait(LONG).acquire().await });
    until_waiting(&other, "k", 1).await;
    ask_for(&server, "1");
    drop(guard.release().await);
    ask_for(&server, "0");
    waiter.await.unwrap().unwrap().release().await.unwrap();
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_that_gives_up_says_what_the_server_said() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    ask_for(&server, "1");
    let error = manager.lock("k").wait(Duration::from_millis(300)).acquire().await.unwrap_err();
    assert_unavailable(&error);
    assert_says(&error, "min-replicas-to-write");
    assert_says(&error, "NOREPLICAS");
    let acquire = tokio::time::timeout(SOON, manager.lock("k").wait(LONG).acquire());
    let error = acquire.await.expect("not after the wait").unwrap_err();
    assert_unavailable(&error);
    assert_says(&error, "NOREPLICAS");
    ask_for(&server, "0");
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_lock_outlives_it() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    let guard = manager.lock("k").ttl(Duration::from_secs(6)).acquire().await.unwrap();
    ask_for(&server, "1");
    // A renewal.
    until_refused(&server).await;
    guard.check().unwrap();
    ask_for(&server, "0");
    until_renewed(&guard).await;
    guard.release().await.unwrap();
    residue::none(&server).await;
}
