//! The errors when a server or a permission is missing, and requests that arrive late.

use std::time::{Duration, Instant};

use distlock::{LockError, LockManager};
use distlock_tests::{BOUND, Direction, Proxy, ZooKeeperServers};

use crate::zookeeper::{LONG, process};

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_the_error_says_where_it_was_looked_for_and_why_it_was_not_found() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = LockManager::connect(&format!("zookeeper://u:s3cret@{closed}")).await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&closed.to_string()) && !format!("{error:?}").contains("s3cret"), "{text}");
    assert!(text.contains("refused"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_majority_no_session_begins_and_the_error_says_so() {
    let mut servers = ZooKeeperServers::three();
    servers.kill9(1);
    servers.kill9(2);
    let url = format!("zookeeper://{}?connect_timeout=2s&session_timeout=2s", servers.address(0));
    let error = LockManager::connect(&url).await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains(&servers.address(0)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_zookeeper_cannot_do_is_refused_with_the_reason() {
    let servers = ZooKeeperServers::one();
    let manager = process(&servers, "10s").await;
    let error = manager.lock("k").min_hold(Duration::from_secs(1)).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::InvalidOptions { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("ZooKeeper at 127.0.0.1") && text.contains("nodes with a ttl"), "{text}");
    for builder in [
        LockManager::builder().url(servers.url()).replicas(1),
        LockManager::builder().url(servers.url()).address_map(|_, _| None),
        LockManager::builder().url(format!("{}/a//b", servers.url())),
    ] {
        let error = builder.connect().await.unwrap_err();
        assert!(matches!(error, LockError::InvalidOptions { .. }), "{error:?}");
    }
}

/// The client's connection has ended when its request arrives. Requests of the next connection are executed after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_arrives_late_takes_no_lock() {
    let servers = ZooKeeperServers::one();
    let proxy = Proxy::to(&servers.address(0));
    let url = format!("zookeeper://{}?response_timeout=1s&session_timeout=60s", proxy.address());
    let manager =
        LockManager::builder().url(&url).unavailable_after(Duration::from_secs(1)).connect().await.unwrap();
    let direct = process(&servers, "60s").await;
    for round in 0..3 {
        proxy.hold(Direction::Requests);
        let error = manager.lock("k").acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
        proxy.pass();
        let start = Instant::now();
        while manager.lock("other").acquire().await.is_err() {
            assert!(start.elapsed() < BOUND, "round {round}");
        }
        let next = direct.lock("k").wait(LONG).acquire().await.unwrap();
        next.release().await.unwrap();
    }
    servers.has_no_locks("/distlock");
}

/// Keys that would be paths, parts of paths, or empty names.
#[tokio::test(flavor = "multi_thread")]
async fn every_key_can_be_locked() {
    let servers = ZooKeeperServers::one();
    let manager = process(&servers, "60s").await;
    for key in
        ["a/b", "a", ".", "..", "100%", "zeile\n", "schlüssel", "\u{1f512}", "\u{fffd}", &"x".repeat(1_000)]
    {
        let guard = manager.lock(key).acquire().await.unwrap_or_else(|error| panic!("{key:?}: {error}"));
        let info = manager.inspect(key).await.unwrap().unwrap();
        assert_eq!(info.holders.len(), 1, "{key:?}");
        guard.release().await.unwrap();
    }
    servers.has_no_locks("/distlock");
}
