//! Another program left the key without a ttl. The key never expires, and the error says so.

use std::time::Duration;

use distlock_tests::{RedisServer, residue};

use super::connect;

#[tokio::test]
async fn it_is_busy_and_says_that_it_never_expires() {
    let server = RedisServer::start();
    server.raw(&["SET", "k", "left-behind"]);
    let manager = connect(&server).await;
    let error = manager.lock("k").wait(Duration::from_millis(300)).acquire().await.unwrap_err();
    assert!(error.is_busy(), "{error:?}");
    assert!(error.to_string().contains("left-behind"), "{error}");
    assert_eq!(server.get("k").as_deref(), Some("left-behind"), "nobody takes it away by itself");
    let info = manager.inspect("k").await.unwrap().unwrap();
    assert_eq!(info.remaining, None, "{info:?}");
}

#[tokio::test]
async fn force_release_gets_rid_of_it() {
    let server = RedisServer::start();
    server.raw(&["SET", "k", "left-behind"]);
    let manager = connect(&server).await;
    manager.force_release("k").await.unwrap();
    manager.lock("k").no_wait().acquire().await.unwrap().release().await.unwrap();
    residue::none(&server).await;
}

#[tokio::test]
async fn a_waiter_gets_the_lock_when_somebody_deletes_it() {
    let server = RedisServer::start();
    server.raw(&["SET", "k", "left-behind"]);
    let manager = connect(&server).await;
    let waiter = tokio::spawn(async move { manager.lock("k").wait(Duration::from_secs(60)).acquire().await });
    server.raw(&["DEL", "k"]);
    waiter.await.unwrap().unwrap().release().await.unwrap();
}
