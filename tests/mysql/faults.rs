//! Connections and servers end, stop and return. Two holders never believe in one lock at the same time, tokens rise,
//! and no lock is left.

use distlock::testing::eventually;
use distlock_fixtures::MariaDbServer;

use crate::each_store::{LONG, at_work, judge, manager};

crate::each_store::faults!(MariaDbServer);

#[tokio::test(flavor = "multi_thread")]
async fn connections_ended_by_the_administrator() {
    let (server, fleet) = at_work::<MariaDbServer>().await;
    for _ in 0..8 {
        assert!(server.kill_clients().await > 0);
        fleet.works().await;
    }
    judge(&server, fleet).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_keeps_its_lock_over_a_restart_and_the_next_gets_it_after() {
    let mut server = MariaDbServer::start();
    let (one, other) = (manager(&server.url()).await, manager(&server.url()).await);
    let guard = one.lock("k").ttl(LONG).fenced().acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("k").wait(LONG).fenced().acquire());
    server.restart();
    eventually("it is connected again", async || one.inspect("k").await.is_ok()).await;
    guard.extend(LONG * 2).await.unwrap();
    let token = guard.fencing_token().unwrap();
    guard.release().await.unwrap();
    let next = waiter.await.unwrap().unwrap();
    assert!(next.fencing_token().unwrap() > token);
    next.release().await.unwrap();
}
