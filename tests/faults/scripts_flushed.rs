//! `SCRIPT FLUSH`: the server has forgotten the scripts.

use std::time::Duration;

use distlock_tests::{RedisServer, residue};

use super::{LONG, connect};

#[tokio::test(flavor = "multi_thread")]
async fn release_renewal_and_hand_off_still_work() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let ttl = Duration::from_secs(2);
    let guard = one.lock("k").ttl(ttl).fenced().acquire().await.unwrap();
    let waiter = tokio::spawn(async move { other.lock("k").wait(LONG).fenced().acquire().await });
    server.raw(&["SCRIPT", "FLUSH"]);
    assert!(tokio::time::timeout(ttl * 2, guard.lost()).await.is_err(), "renewal loads its script again");
    server.raw(&["SCRIPT", "FLUSH"]);
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    residue::none(&server).await;
}
