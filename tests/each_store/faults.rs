//! Broken links, and a server that is stopped or killed: the same table of faults, on every store with one server.
//! Another store needs an implementation of [`Server`] and a line of `faults!` in its tests.

use std::time::{Duration, Instant};

use distlock::LockManager;
use distlock::testing::eventually;
use distlock_fixtures::{Direction, MariaDbServer, MemcachedServer, PostgresServer, Proxy};

use crate::each_store::{Fleet, LONG, Tokens, manager, refusal};

/// A server of one kind, and its special properties.
pub(crate) trait Server: Sized {
    /// Whether its locks have fencing tokens.
    const TOKENS: Tokens;
    /// Whether it forgets every lock when it is restarted.
    const RESTART: Restart;

    /// Starts a separate server.
    fn start() -> Self;
    /// `host:port`.
    fn address(&self) -> String;
    /// Its URL.
    fn url(&self) -> String;
    /// The URL through a proxy.
    fn url_through(&self, proxy: &Proxy) -> String;
    /// The held locks.
    fn residue(&self) -> impl Future<Output = Vec<String>>;
    /// kill −9.
    fn kill9(&mut self);
    /// kill −9, and a new start.
    fn restart(&mut self);
    /// SIGSTOP.
    fn stop(&self);
    /// SIGCONT.
    fn cont(&self);
}

/// The effect of a restart of the server on its locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restart {
    /// They survive.
    Keeps,
    /// They are forgotten, so two may hold one. All holders notice it, and all continue.
    Forgets,
}

impl Server for MariaDbServer {
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

    fn kill9(&mut self) {
        self.kill9();
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

impl Server for PostgresServer {
    const TOKENS: Tokens = Tokens::Rise;
    const RESTART: Restart = Restart::Keeps;

    fn start() -> Self {
        PostgresServer::start()
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
        self.residue("distlock", "").await
    }

    fn kill9(&mut self) {
        self.kill9();
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

impl Server for MemcachedServer {
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

    fn kill9(&mut self) {
        self.kill9();
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

/// A server, and processes that use it.
pub(crate) async fn at_work<S: Server>() -> (S, Fleet) {
    let server = S::start();
    let fleet = Fleet::start(&server.address(), S::TOKENS, |proxy| server.url_through(proxy)).await;
    (server, fleet)
}

/// Ends the processes, and checks that no rule was broken and no lock is left.
pub(crate) async fn judge(server: &impl Server, fleet: Fleet) {
    let _managers = fleet.end().await;
    eventually("nothing is left", async || server.residue().await.is_empty()).await;
}

/// Cuts the links of all processes, one after the other.
pub(crate) async fn links_cut<S: Server>() {
    let (server, fleet) = at_work::<S>().await;
    for round in 0..20 {
        fleet.proxies[round % 4].cut();
        fleet.works().await;
    }
    judge(&server, fleet).await;
}

/// The link delivers nothing, and the connection is not closed.
pub(crate) async fn links_half_open<S: Server>() {
    let (server, fleet) = at_work::<S>().await;
    for round in 0..3 {
        let proxy = &fleet.proxies[round];
        proxy.swallow_all();
        // A process that held the lock notices the loss at the end of its lease at the latest.
        fleet.works().await;
        proxy.pass();
    }
    judge(&server, fleet).await;
}

/// The replies to one process are slow or late.
pub(crate) async fn answers_slow_or_late<S: Server>() {
    let (server, fleet) = at_work::<S>().await;
    let slow = &fleet.proxies[0];
    slow.delay(Direction::Replies, Duration::from_millis(150));
    fleet.works().await;
    for _ in 0..2 {
        // The replies to its requests arrive when no caller waits for them any longer.
        slow.hold(Direction::Replies);
        fleet.works().await;
        slow.pass();
        fleet.works().await;
    }
    judge(&server, fleet).await;
}

/// The server is killed three times.
pub(crate) async fn server_killed<S: Server>() {
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

/// The server is stopped twice, for longer than a lease.
pub(crate) async fn server_stopped<S: Server>() {
    let (server, fleet) = at_work::<S>().await;
    for _ in 0..2 {
        server.stop();
        // A stopped server has no event that the test could wait for.
        tokio::time::sleep(Duration::from_secs(6)).await;
        server.cont();
        fleet.works().await;
    }
    judge(&server, fleet).await;
}

/// A holder loses its lock when its lease expires, while the server is stopped.
pub(crate) async fn holder_behind_a_stopped_server<S: Server>() {
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

/// The store is used as soon as the server has started.
pub(crate) async fn server_not_there<S: Server>() {
    let mut server = S::start();
    server.kill9();
    let error = refusal(&server.url()).await;
    assert!(error.is_unavailable(), "{error:?}");
    assert!(error.to_string().contains("refused"), "{error}");
    let lazy = LockManager::builder().url(server.url()).connect_lazy().unwrap();
    server.restart();
    lazy.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
}

/// A test for each fault, on one store.
macro_rules! faults {
    ($server:ty) => {
        $crate::each_store::faults!(@each $server,
            links_cut, links_half_open, answers_slow_or_late, server_killed, server_stopped,
            holder_behind_a_stopped_server, server_not_there);
    };
    (@each $server:ty, $($fault:ident),+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $fault() {
            $crate::each_store::$fault::<$server>().await;
        })+
    };
}
pub(crate) use faults;
