//! Connections and servers that end, stop, and come back: no two holders that both believe it, rising tokens, and
//! nothing left behind.

use std::time::{Duration, Instant};

use distlock::testing::eventually;
use distlock_fixtures::{Direction, MariaDbServer};
use distlock_polling_tests::{Fleet, LONG, Tokens, manager};

async fn fleet(server: &MariaDbServer) -> Fleet {
    Fleet::start(&server.address(), Tokens::Rise, |proxy| server.url_through(proxy)).await
}

async fn end(fleet: Fleet, server: &MariaDbServer) {
    let _managers = fleet.end().await;
    eventually("nothing is left", async || server.residue("distlock_", "").await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_ended_by_the_administrator() {
    let server = MariaDbServer::start();
    let fleet = fleet(&server).await;
    for _ in 0..8 {
        assert!(server.kill_clients().await > 0);
        fleet.works().await;
    }
    end(fleet, &server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_cut() {
    let server = MariaDbServer::start();
    let fleet = fleet(&server).await;
    for round in 0..12 {
        fleet.proxies[round % 4].cut();
        fleet.works().await;
    }
    end(fleet, &server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_half_open() {
    let server = MariaDbServer::start();
    let fleet = fleet(&server).await;
    for round in 0..3 {
        let proxy = &fleet.proxies[round];
        proxy.swallow_all();
        // A process that held it knows by the end of its lease at the latest.
        fleet.works().await;
        proxy.pass();
    }
    end(fleet, &server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_slow_or_late() {
    let server = MariaDbServer::start();
    let fleet = fleet(&server).await;
    let slow = &fleet.proxies[0];
    slow.delay(Direction::Replies, Duration::from_millis(150));
    fleet.works().await;
    for _ in 0..2 {
        // What was asked meanwhile is answered when nobody waits for it any more.
        slow.hold(Direction::Replies);
        fleet.works().await;
        slow.pass();
        fleet.works().await;
    }
    end(fleet, &server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_killed_and_restarted() {
    let mut server = MariaDbServer::start();
    let fleet = fleet(&server).await;
    for _ in 0..3 {
        server.restart();
        fleet.works().await;
    }
    end(fleet, &server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_stopped_for_longer_than_a_lease() {
    let server = MariaDbServer::start();
    let fleet = fleet(&server).await;
    for _ in 0..2 {
        server.stop();
        tokio::time::sleep(Duration::from_secs(6)).await;
        server.cont();
        fleet.works().await;
    }
    end(fleet, &server).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_behind_a_stopped_server_is_told_when_its_lease_is_over() {
    let server = MariaDbServer::start();
    let manager = manager(&server.url()).await;
    let guard = manager.lock("k").ttl(Duration::from_secs(2)).acquire().await.unwrap();
    server.stop();
    let start = Instant::now();
    guard.lost().await;
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert!(!guard.is_held());
    server.cont();
    manager.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
}
