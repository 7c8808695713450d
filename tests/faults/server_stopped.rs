//! SIGSTOP of the server for longer than the ttl: connections stay open, and the server does not reply.

use std::time::{Duration, Instant};

use distlock_tests::{RedisServer, eventually, residue};

use super::{LONG, SOON, assert_unavailable, connect};

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_has_lost_at_its_deadline_and_the_manager_recovers() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    let ttl = Duration::from_secs(1);
    let start = Instant::now();
    let guard = manager.lock("k").ttl(ttl).acquire().await.unwrap();
    server.stop();
    guard.lost().await;
    let lasted = start.elapsed();
    assert!(lasted > ttl / 2 && lasted < ttl + SOON, "{lasted:?}");
    server.cont();
    eventually("it works again", async || manager.lock("k").acquire().await.is_ok()).await;
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_is_unavailable_and_leaves_nothing_when_the_server_goes_on() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    server.stop();
    let start = Instant::now();
    assert_unavailable(&manager.lock("k").ttl(LONG).wait_forever().acquire().await.unwrap_err());
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    server.cont();
    eventually("it works again", async || manager.lock("probe").acquire().await.is_ok()).await;
    residue::none(&server).await;
}
