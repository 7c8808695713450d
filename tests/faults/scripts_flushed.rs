//! `SCRIPT FLUSH`: the server has forgotten the scripts.

use std::time::Duration;

use distlock_tests::{RedisServer, residue, until_renewed};

use super::{LONG, connect};

#[tokio::test(flavor = "multi_thread")]
async fn release_renewal_and_hand_off_still_work() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let guard = one.lock("k").ttl(Duration::from_secs(6)).fenced().acquire().await.unwrap();
    let waiter = tokio::spawn(async move { other.lock("k").wait(LONG).fenced().acquire().await });
    server.raw(&["SCRIPT", "FLUSH"]);
    // Renewal loads its script again.
    until_renewed(&guard).await;
    server.raw(&["SCRIPT", "FLUSH"]);
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    residue::none(&server).await;
}
