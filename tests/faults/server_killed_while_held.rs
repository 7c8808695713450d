//! The server is killed and restarted while a lock is held.

use std::time::{Duration, Instant};

use distlock::{LockError, LostReason};
use distlock_tests::{RedisServer, eventually, residue, until_renewed};

use super::{SOON, connect};

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_survives_a_restart_with_persistence() {
    let mut server = RedisServer::options().append_only().start();
    let manager = connect(&server).await;
    let guard = manager.lock("k").ttl(Duration::from_secs(20)).acquire().await.unwrap();
    server.restart();
    until_renewed(&guard).await;
    guard.release().await.unwrap();
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_the_server_forgot_is_lost() {
    let mut server = RedisServer::start();
    let manager = connect(&server).await;
    let guard = manager.lock("k").ttl(Duration::from_secs(15)).acquire().await.unwrap();
    server.restart();
    let lost = guard.lost().await;
    // Known by renewal, not by the time.
    assert!(matches!(lost, LockError::Lost { reason: LostReason::Taken, .. }), "{lost:?}");
    assert!(!server.exists("k"), "renewal never creates");
    assert!(guard.release().await.unwrap_err().is_lost());
    eventually("it works again", async || manager.lock("k").acquire().await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stays_down_ends_the_lease_at_its_deadline() {
    let mut server = RedisServer::start();
    let manager = connect(&server).await;
    let ttl = Duration::from_secs(2);
    let start = Instant::now();
    let guard = manager.lock("k").ttl(ttl).acquire().await.unwrap();
    server.kill9();
    guard.lost().await;
    let lasted = start.elapsed();
    assert!(lasted > ttl / 2 && lasted < ttl + SOON, "an I/O error is not a loss: {lasted:?}");
}
