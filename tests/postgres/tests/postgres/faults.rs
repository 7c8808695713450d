//! Connections and servers that end, stop, and come back: no two holders that both believe it, rising tokens, and
//! nothing left behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock::LockManager;
use distlock_fixtures::{PostgresServer, Proxy};
use distlock_tests::eventually;

use crate::court::Court;
use crate::{LONG, manager};

/// Processes of their own that work on one key, each with a link of its own.
struct Fleet {
    court: Arc<Court>,
    proxies: Vec<Proxy>,
    workers: tokio::task::JoinSet<()>,
    /// They live on, to give back what their workers held.
    managers: Vec<LockManager>,
}

impl Fleet {
    async fn start(server: &PostgresServer) -> Self {
        let court = Arc::new(Court::default());
        let (mut proxies, mut managers) = (Vec::new(), Vec::new());
        let mut workers = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let proxy = Proxy::to(&server.address());
            let url = server.url_through(&proxy);
            let manager = LockManager::builder().url(url).unavailable_after(LONG).connect().await.unwrap();
            workers.spawn(court.clone().work(manager.clone(), "k".to_owned()));
            managers.push(manager);
            proxies.push(proxy);
        }
        let fleet = Fleet { court, proxies, workers, managers };
        fleet.works().await;
        fleet
    }

    /// Waits until they get on.
    async fn works(&self) {
        let before = self.court.sections();
        eventually("they get on", async || self.court.sections() > before + 40).await;
    }

    async fn end(mut self, server: &PostgresServer) {
        self.works().await;
        self.workers.shutdown().await;
        self.court.acquit();
        eventually("nothing is left", async || server.residue("distlock", "").await.is_empty()).await;
        drop(self.managers);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_ended_by_the_administrator() {
    let server = PostgresServer::start();
    let fleet = Fleet::start(&server).await;
    for _ in 0..10 {
        assert!(server.terminate_clients().await > 0);
        fleet.works().await;
    }
    fleet.end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_cut() {
    let server = PostgresServer::start();
    let fleet = Fleet::start(&server).await;
    for round in 0..20 {
        fleet.proxies[round % 4].cut();
        fleet.works().await;
    }
    fleet.end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_half_open() {
    let server = PostgresServer::start();
    let fleet = Fleet::start(&server).await;
    for round in 0..3 {
        let proxy = &fleet.proxies[round];
        proxy.swallow_all();
        // A process that held it knows by the end of its lease at the latest.
        fleet.works().await;
        proxy.pass();
    }
    fleet.end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_killed_and_restarted() {
    let mut server = PostgresServer::start();
    let fleet = Fleet::start(&server).await;
    for _ in 0..3 {
        server.restart();
        fleet.works().await;
    }
    fleet.end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_stopped_for_longer_than_a_lease() {
    let server = PostgresServer::start();
    let fleet = Fleet::start(&server).await;
    for _ in 0..2 {
        server.stop();
        tokio::time::sleep(Duration::from_secs(6)).await;
        server.cont();
        fleet.works().await;
    }
    fleet.end(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_keeps_its_lock_over_a_restart_and_the_next_gets_it_after() {
    let mut server = PostgresServer::start();
    let (one, other) = (manager(&server.url(), "distlock").await, manager(&server.url(), "distlock").await);
    let guard = one.lock("k").ttl(LONG).fenced().acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("k").wait(LONG).fenced().acquire());
    distlock_tests::until_waiting(&one, "k", 1).await;
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
    let server = PostgresServer::start();
    let manager = manager(&server.url(), "distlock").await;
    let guard = manager.lock("k").ttl(Duration::from_secs(2)).acquire().await.unwrap();
    server.stop();
    let start = Instant::now();
    guard.lost().await;
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert!(!guard.is_held());
    server.cont();
    manager.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
}

/// A crash may forget who holds what if commits are not awaited; it gives no token twice.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_rise_over_crashes_although_commits_are_not_awaited() {
    // What no commit waits for is written after ten seconds.
    let mut server = PostgresServer::with(&["wal_writer_delay=10s", "autovacuum=off"]);
    let url = format!("{}?synchronous_commit=off", server.url());
    let (one, other) = (manager(&url, "distlock").await, manager(&url, "distlock").await);
    server.run("CHECKPOINT").await;
    let mut last = 0;
    for round in 0..4 {
        let ttl = Duration::from_secs(2);
        let request = |manager: &LockManager| manager.lock("k").ttl(ttl).wait(LONG).fenced();
        let guard = request(&one).acquire().await.unwrap();
        let token = guard.fencing_token().unwrap().get();
        assert!(token > last, "{token} after {last}");
        last = token;
        // By hand-off every other time.
        if round % 2 == 1 {
            let waiter = tokio::spawn(request(&other).acquire());
            distlock_tests::until_waiting(&one, "k", 1).await;
            guard.release().await.unwrap();
            let next = waiter.await.unwrap().unwrap();
            last = next.fencing_token().unwrap().get();
        }
        server.restart();
    }
    let guard = one.lock("k").wait(LONG).fenced().acquire().await.unwrap();
    let token = guard.fencing_token().unwrap().get();
    assert!(token > last, "{token} after {last}");
}
