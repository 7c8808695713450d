//! The errors when a server or a permission is missing.

use std::time::{Duration, Instant};

use distlock::{LockError, LockManager};
use distlock_tests::{Direction, EtcdServers, Proxy};

use crate::etcd::process;

#[tokio::test(flavor = "multi_thread")]
async fn without_a_member_the_error_says_where_it_was_looked_for() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = LockManager::connect(&format!("etcd://u:s3cret@{closed}")).await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&closed.to_string()) && !format!("{error:?}").contains("s3cret"), "{text}");
}

/// It may be another kind of server, or one that hangs.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_says_nothing_is_named() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let url = format!("etcd://u:s3cret@{address}?connect_timeout=300ms&response_timeout=300ms");
    let error = LockManager::connect(&url).await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    let text = format!("{error} {error:?}");
    assert!(text.contains(&address.to_string()) && !text.contains("s3cret"), "{text}");
}

#[tokio::test]
async fn a_wrong_url_is_refused_with_the_reason_and_without_its_password() {
    for (url, reason) in [
        ("etcd://u:s3cret@h:port", "the port"),
        ("etcd://u:s3cret/x@h", "%2F"),
        ("etcd://s3cret@h", "user:password@host"),
        ("etcd://u:s3cret@h?sesion_timeout=5s", "did you mean `session_timeout`?"),
        ("etcd://u:s3cret@h?session_timeout=1s", "between 2 s"),
        ("etcd://u:s3cret@h?ca=/x.pem", "`etcds://`"),
        ("etcds://u:s3cret@h?ca=/nowhere.pem", "/nowhere.pem"),
    ] {
        let error = LockManager::builder().url(url).connect_lazy().unwrap_err();
        assert!(matches!(error, LockError::InvalidOptions { .. }), "{error:?}");
        let text = format!("{error} {error:?}");
        assert!(text.contains(reason) && !text.contains("s3cret"), "{url}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_for_redis_is_refused() {
    let servers = EtcdServers::one();
    for builder in [
        LockManager::builder().url(servers.url()).replicas(1),
        LockManager::builder().url(servers.url()).address_map(|_, _| None),
    ] {
        let error = builder.connect().await.unwrap_err();
        assert!(matches!(error, LockError::InvalidOptions { .. }), "{error:?}");
    }
}

/// The client's connection has ended when its request arrives, and the next connection has invalidated it.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_arrives_late_takes_no_lock() {
    let servers = EtcdServers::one();
    let proxy = Proxy::to(&servers.address(0));
    let url = format!("etcd://{}?response_timeout=300ms&session_timeout=60s", proxy.address());
    let manager =
        LockManager::builder().url(&url).unavailable_after(Duration::from_secs(1)).connect().await.unwrap();
    let direct = process(&servers, "10s").await;
    for round in 0..3 {
        proxy.hold(Direction::Requests);
        let error = manager.lock("k").acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
        proxy.pass();
        let start = Instant::now();
        while manager.lock("other").acquire().await.is_err() {
            assert!(start.elapsed() < Duration::from_secs(30), "round {round}");
        }
        let next = direct.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap();
        next.release().await.unwrap();
    }
    servers.has_no_locks("distlock/");
}
