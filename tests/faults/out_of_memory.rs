//! The server is out of memory. An acquisition fails with the reason, and a release works.

use std::time::Duration;

use distlock_tests::{RedisServer, residue, until_renewed};

use super::{LONG, SOON, assert_says, assert_unavailable, connect};

fn exhaust(server: &RedisServer) {
    server.raw(&["CONFIG", "SET", "maxmemory", "1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_fails_with_the_reason() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    exhaust(&server);
    let acquire = tokio::time::timeout(SOON, manager.lock("k").wait(LONG).acquire());
    let error = acquire.await.expect("not after the wait").unwrap_err();
    assert_unavailable(&error);
    assert_says(&error, "memory");
    assert_eq!(server.keys(), Vec::<String>::new());
    server.raw(&["CONFIG", "SET", "maxmemory", "0"]);
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_lock_is_kept_and_can_be_released() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    let guard = manager.lock("k").ttl(Duration::from_secs(6)).acquire().await.unwrap();
    exhaust(&server);
    // This needs no memory.
    until_renewed(&guard).await;
    guard.release().await.unwrap();
    residue::none(&server).await;
}
