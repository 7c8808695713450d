//! Links that break and a server that stops: no two holders that both believe it while nothing is forgotten, and
//! nothing left behind.

use std::time::{Duration, Instant};

use distlock::testing::eventually;
use distlock_fixtures::{Direction, MemcachedServer};
use distlock_polling_tests::{Fleet, LONG, Tokens, manager};

async fn fleet(server: &MemcachedServer) -> Fleet {
    Fleet::start(&server.address(), Tokens::None, |proxy| format!("memcached://{}", proxy.address())).await
}

async fn end(fleet: Fleet, server: &MemcachedServer) {
    let _managers = fleet.end().await;
    eventually("nothing is left", async || server.keys().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_cut() {
    let server = MemcachedServer::start();
    let fleet = fleet(&server).await;
    for round in 0..20 {
        fleet.proxies[round % 4].cut();
        fleet.works().await;
    }
    end(fleet, &server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_half_open() {
    let server = MemcachedServer::start();
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
    let server = MemcachedServer::start();
    let fleet = fleet(&server).await;
    let slow = &fleet.proxies[0];
    slow.delay(Direction::Replies, Duration::from_millis(150));
    fleet.works().await;
    for _ in 0..2 {
        slow.hold(Direction::Replies);
        fleet.works().await;
        slow.pass();
        fleet.works().await;
    }
    end(fleet, &server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_stopped_for_longer_than_a_lease() {
    let server = MemcachedServer::start();
    let fleet = fleet(&server).await;
    for _ in 0..2 {
        server.stop();
        tokio::time::sleep(Duration::from_secs(5)).await;
        server.cont();
        fleet.works().await;
    }
    end(fleet, &server).await;
}

/// It forgets every lock, so two may hold one: all are told, and all get on.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_killed_and_restarted() {
    let mut server = MemcachedServer::start();
    let fleet = fleet(&server).await;
    for _ in 0..3 {
        server.restart();
        fleet.works().await;
    }
    fleet.works().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_behind_a_stopped_server_is_told_when_its_lease_is_over() {
    let server = MemcachedServer::start();
    let manager = manager(&server.url()).await;
    let guard = manager.lock("k").ttl(Duration::from_secs(2)).acquire().await.unwrap();
    server.stop();
    let start = Instant::now();
    guard.lost().await;
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    server.cont();
    manager.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
}
