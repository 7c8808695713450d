//! The server is killed and restarted while a request waits.

use std::time::Instant;

use distlock_tests::{RedisServer, residue, until_waiting};

use super::{LONG, SOON, assert_unavailable, connect};

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_goes_on_waiting_after_a_restart() {
    let mut server = RedisServer::options().append_only().start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let guard = one.lock("k").ttl(LONG).acquire().await.unwrap();
    let waiter = tokio::spawn(async move { other.lock("k").ttl(LONG).wait(LONG).acquire().await });
    until_waiting(&one, "k", 1).await;
    server.restart();
    // A release that the outage left unconfirmed is executed when the link works again. In both cases, the waiter is
    // next.
    drop(guard.release().await);
    waiter.await.unwrap().unwrap().release().await.unwrap();
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_of_a_server_that_stays_down_is_told_unavailable() {
    let mut server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let guard = one.lock("k").ttl(LONG).acquire().await.unwrap();
    let waiter = tokio::spawn(async move { other.lock("k").wait(LONG).acquire().await });
    until_waiting(&one, "k", 1).await;
    server.kill9();
    let start = Instant::now();
    assert_unavailable(&waiter.await.unwrap().unwrap_err());
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    drop(guard);
}
