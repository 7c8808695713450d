//! No server replies at the address.

use std::error::Error;
use std::time::{Duration, Instant};

use distlock::{LockError, LockManager};
use distlock_tests::{Proxy, RedisServer, eventually};

use super::{LONG, SOON, assert_says, assert_unavailable};

/// A server that has ended, so its port refuses connections.
fn gone() -> RedisServer {
    let mut server = RedisServer::start();
    server.kill9();
    server
}

#[tokio::test]
async fn connect_tries_for_five_seconds_and_says_what_and_for_how_long() {
    let server = gone();
    let start = Instant::now();
    let error = LockManager::connect(&server.url()).await.unwrap_err();
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(4_900) && took < SOON, "{took:?}");
    assert_unavailable(&error);
    assert_says(&error, &server.address());
    assert_says(&error, "retried for 5s");
    let texts: Vec<String> = chain(&error).collect();
    let refused = texts.iter().filter(|text| text.contains("Connection refused")).count();
    assert!(refused <= 2, "the same text again and again: {texts:#?}");
}

fn chain(error: &LockError) -> impl Iterator<Item = String> {
    let whole = std::iter::successors(Some(error as &dyn Error), |&error| error.source());
    whole.map(ToString::to_string)
}

/// A service that is started at the same time as its server.
#[tokio::test(flavor = "multi_thread")]
async fn connect_waits_for_a_server_that_is_just_being_started() {
    let mut server = gone();
    let builder = LockManager::builder().url(server.url()).connect_timeout(Duration::from_secs(60));
    let connect = tokio::spawn(builder.connect());
    // The server needs time to start. Until then, the port refuses connections.
    let server = tokio::task::spawn_blocking(move || {
        server.restart();
        server
    });
    let manager = connect.await.unwrap().expect("the server came up in time");
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
    drop(server.await.unwrap());
}

#[tokio::test]
async fn connect_to_a_silent_address_fails_soon() {
    let server = RedisServer::start();
    let proxy = Proxy::to(&server.address());
    proxy.swallow_all();
    let start = Instant::now();
    assert_unavailable(&LockManager::connect(&proxy.url()).await.unwrap_err());
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_lazy_manager_is_unavailable_within_the_wait_and_nothing_runs() {
    let server = gone();
    // Only the wait limits the first request.
    let patient = LockManager::builder().url(server.url()).unavailable_after(LONG).connect_lazy().unwrap();
    let start = Instant::now();
    let mut ran = false;
    let error =
        patient.lock("k").wait(Duration::from_millis(300)).run(async |_| ran = true).await.unwrap_err();
    assert_unavailable(&error);
    assert!(!ran);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    let manager = LockManager::connect_lazy(server.url()).unwrap();
    for request in [manager.lock("k").wait(LONG), manager.lock("k").wait_forever()] {
        let start = Instant::now();
        assert_unavailable(&request.acquire().await.unwrap_err());
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    }
    assert_unavailable(&manager.lock("k").try_acquire().await.unwrap_err());
}

#[tokio::test]
async fn a_lazy_manager_works_once_the_server_is_there() {
    let mut server = gone();
    let manager = LockManager::connect_lazy(server.url()).unwrap();
    assert_unavailable(&manager.lock("k").no_wait().acquire().await.unwrap_err());
    server.restart();
    eventually("it works", async || manager.lock("k").acquire().await.is_ok()).await;
}

#[tokio::test]
async fn a_url_that_cannot_be_is_an_invalid_option() {
    for url in
        ["", "localhost", "http://localhost/", "redis://", "redis://host:port/", "redis://127.0.0.1:99999/"]
    {
        let refused = LockManager::connect(url).await;
        assert!(matches!(refused, Err(LockError::InvalidOptions { .. })), "{url:?}: {refused:?}");
    }
}

#[tokio::test]
async fn an_address_of_another_kind_of_server_is_unavailable() {
    // An HTTP server would reply like this to any request.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for mut connection in listener.incoming().flatten() {
            // A client that has closed its connection needs no reply.
            drop(connection.read(&mut [0; 1024]));
            drop(connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
        }
    });
    let start = Instant::now();
    assert_unavailable(&LockManager::connect(format!("redis://{address}/")).await.unwrap_err());
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_missing_unix_socket_is_unavailable() {
    let error = LockManager::connect("redis+unix:///nonexistent/redis.sock").await.unwrap_err();
    assert_unavailable(&error);
    assert_says(&error, "/nonexistent/redis.sock");
}

#[tokio::test]
async fn a_unix_socket_works() {
    let server = RedisServer::options().unix_socket().start();
    let manager = LockManager::connect(&server.unix_url()).await.unwrap();
    let guard = manager.lock("k").acquire().await.unwrap();
    assert!(server.exists("k"));
    guard.release().await.unwrap();
}
