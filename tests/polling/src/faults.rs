//! Links that break and a server that stops or is killed, on every store that is polled: the same faults in one table.
//! Another store is an implementation of [`Polled`] and a line of `faults!` in its tests.

use std::time::{Duration, Instant};

use distlock::testing::eventually;
use distlock_fixtures::{Direction, MariaDbServer, MemcachedServer, Proxy};

use crate::{Fleet, LONG, Tokens, manager};

/// A server of one kind, and what is special to it.
pub trait Polled: Sized {
    /// Whether its locks are fenced.
    const TOKENS: Tokens;
    /// Whether it forgets every lock when it is restarted.
    const RESTART: Restart;

    /// A server of its own.
    fn start() -> Self;
    /// `host:port`.
    fn address(&self) -> String;
    /// Its URL.
    fn url(&self) -> String;
    /// The URL through a proxy.
    fn url_through(&self, proxy: &Proxy) -> String;
    /// What is held.
    fn residue(&self) -> impl Future<Output = Vec<String>>;
    /// kill −9, and started again.
    fn restart(&mut self);
    /// SIGSTOP.
    fn stop(&self);
    /// SIGCONT.
    fn cont(&self);
}

/// What becomes of locks when their server is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// They are kept.
    Keeps,
    /// Two may hold one: all are told, and all get on.
    Forgets,
}

impl Polled for MariaDbServer {
    const TOKENS: Tokens = Tokens::Rise;
    const RESTART: Restart = Restart::Keeps;

    fn start() -> Self {
        MariaDbServer::start()
    }

    fn address(&self) -> String {
        self.address()
    }

    fn url(&self) -> String {
        self.url()
    }

    fn url_through(&self, proxy: &Proxy) -> String {
        self.url_through(proxy)
    }

    async fn residue(&self) -> Vec<String> {
        self.residue("distlock_", "").await
    }

    fn restart(&mut self) {
        self.restart();
    }

    fn stop(&self) {
        self.stop();
    }

    fn cont(&self) {
        self.cont();
    }
}

impl Polled for MemcachedServer {
    const TOKENS: Tokens = Tokens::None;
    const RESTART: Restart = Restart::Forgets;

    fn start() -> Self {
        MemcachedServer::start()
    }

    fn address(&self) -> String {
        self.address()
    }

    fn url(&self) -> String {
        self.url()
    }

    fn url_through(&self, proxy: &Proxy) -> String {
        format!("memcached://{}", proxy.address())
    }

    async fn residue(&self) -> Vec<String> {
        self.keys()
    }

    fn restart(&mut self) {
        self.restart();
    }

    fn stop(&self) {
        self.stop();
    }

    fn cont(&self) {
        self.cont();
    }
}

/// A server, and processes at work on it.
pub async fn at_work<S: Polled>() -> (S, Fleet) {
    let server = S::start();
    let fleet = Fleet::start(&server.address(), S::TOKENS, |proxy| server.url_through(proxy)).await;
    (server, fleet)
}

/// They end: nothing was wrong, and nothing is left.
pub async fn judge(server: &impl Polled, fleet: Fleet) {
    let _managers = fleet.end().await;
    eventually("nothing is left", async || server.residue().await.is_empty()).await;
}

/// The links of all, one after the other.
pub async fn links_cut<S: Polled>() {
    let (server, fleet) = at_work::<S>().await;
    for round in 0..16 {
        fleet.proxies[round % 4].cut();
        fleet.works().await;
    }
    judge(&server, fleet).await;
}

/// Nothing comes through, and the connection is not closed.
pub async fn links_half_open<S: Polled>() {
    let (server, fleet) = at_work::<S>().await;
    for round in 0..3 {
        let proxy = &fleet.proxies[round];
        proxy.swallow_all();
        // A process that held it knows by the end of its lease at the latest.
        fleet.works().await;
        proxy.pass();
    }
    judge(&server, fleet).await;
}

/// Of one process.
pub async fn answers_slow_or_late<S: Polled>() {
    let (server, fleet) = at_work::<S>().await;
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
    judge(&server, fleet).await;
}

/// Three times.
pub async fn server_killed<S: Polled>() {
    let (mut server, fleet) = at_work::<S>().await;
    for _ in 0..3 {
        server.restart();
        fleet.works().await;
    }
    match S::RESTART {
        Restart::Keeps => judge(&server, fleet).await,
        Restart::Forgets => fleet.works().await,
    }
}

/// Twice, for longer than a lease.
pub async fn server_stopped<S: Polled>() {
    let (server, fleet) = at_work::<S>().await;
    for _ in 0..2 {
        server.stop();
        // A stopped server shows nothing that one could wait for.
        tokio::time::sleep(Duration::from_secs(6)).await;
        server.cont();
        fleet.works().await;
    }
    judge(&server, fleet).await;
}

/// A holder is told when its lease is over, while the server stands still.
pub async fn holder_behind_a_stopped_server<S: Polled>() {
    let server = S::start();
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

/// A test for each fault, on one store.
#[macro_export]
macro_rules! faults {
    ($server:ty) => {
        $crate::faults!(@each $server,
            links_cut, links_half_open, answers_slow_or_late, server_killed, server_stopped,
            holder_behind_a_stopped_server);
    };
    (@each $server:ty, $($fault:ident),+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $fault() {
            $crate::$fault::<$server>().await;
        })+
    };
}
