//! The server is a replica, which replies but refuses every write.

use std::time::{Duration, Instant};

use distlock::LockManager;
use distlock_tests::{RedisServer, eventually, residue};

use super::{LONG, SOON, assert_says, assert_unavailable, connect};

#[tokio::test(flavor = "multi_thread")]
async fn it_is_unavailable_and_says_that_it_is_read_only() {
    let server = RedisServer::options().read_only().start();
    let start = Instant::now();
    let connected = LockManager::connect(&server.url()).await.unwrap_err();
    let manager = LockManager::connect_lazy(server.url()).unwrap();
    let acquired = manager.lock("k").wait(LONG).acquire().await.unwrap_err();
    for error in [connected, acquired] {
        assert_unavailable(&error);
        assert_says(&error, "read-only");
    }
    assert!(start.elapsed() < SOON * 2, "{:?}", start.elapsed());
    assert_eq!(server.keys(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_works_once_the_server_is_promoted() {
    let server = RedisServer::options().read_only().start();
    let manager = LockManager::connect_lazy(server.url()).unwrap();
    assert_unavailable(&manager.lock("k").wait(Duration::from_millis(200)).acquire().await.unwrap_err());
    server.raw(&["REPLICAOF", "NO", "ONE"]);
    eventually("it works", async || manager.lock("k").acquire().await.is_ok()).await;
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_server_becomes_read_only_keeps_its_lease_to_the_deadline_and_no_longer() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    let start = Instant::now();
    let ttl = Duration::from_secs(2);
    let guard = manager.lock("k").ttl(ttl).acquire().await.unwrap();
    server.raw(&["REPLICAOF", "127.0.0.1", "1"]);
    guard.lost().await;
    let lasted = start.elapsed();
    assert!(lasted > ttl / 2 && lasted < ttl + SOON, "{lasted:?}");
    assert!(guard.check().unwrap_err().is_lost());
}
