//! Fixtures for the contract suite: one server for all rules of a store, and another one for rules that restart it.

#![allow(clippy::expect_used)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use distlock::store::LockStore;
use distlock::store::kit::connection::ConnectionOptions;
use distlock::testing::contract::Fixture;
use distlock_etcd::EtcdStore;
use distlock_fixtures::{
    Direction, EtcdServers, MariaDbServer, MemcachedServer, PostgresServer, Proxy, ZooKeeperServers,
};
use distlock_memcached::MemcachedStore;
use distlock_mysql::MysqlStore;
use distlock_postgres::PostgresStore;
use distlock_sqlite::SqliteStore;
use distlock_zookeeper::ZooKeeperStore;

/// A server of a store.
pub trait Server: Sized + Send + Sync + 'static {
    /// The store on this server.
    type Store: LockStore;

    /// Opens the store of a URL.
    fn open(url: &str, options: &ConnectionOptions) -> Result<Self::Store, String>;

    /// Starts a server that no other test uses.
    fn start_one() -> Self;

    /// The server that all rules share.
    fn shared() -> &'static Self;

    /// `host:port`.
    fn host(&self) -> String;

    /// The URL of the store, through the proxy if there is one.
    fn url(&self, proxy: Option<&Proxy>) -> String;

    /// Ends the server, and starts it again on the same data.
    fn start_anew(&mut self);
}

/// Separate keys on a server, behind a proxy.
#[derive(Debug)]
pub struct On<S: Server> {
    alone: Option<Mutex<S>>,
    url: String,
    url_through: String,
    proxy: Proxy,
    prefix: String,
}

impl<S: Server> On<S> {
    fn new(server: &S, alone: Option<Mutex<S>>) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let proxy = Proxy::to(&server.host());
        let (url, url_through) = (server.url(None), server.url(Some(&proxy)));
        On { alone, url, url_through, proxy, prefix: format!("{}:", NEXT.fetch_add(1, Ordering::Relaxed)) }
    }
}

impl<S: Server> Fixture for On<S> {
    type Store = S::Store;

    async fn start() -> Self {
        On::new(S::shared(), None)
    }

    async fn start_alone() -> Self {
        let server = S::start_one();
        let on = On::new(&server, None);
        On { alone: Some(Mutex::new(server)), ..on }
    }

    fn store(&self) -> S::Store {
        S::open(&self.url_through, &ConnectionOptions::default()).expect("the URL of a server")
    }

    fn store_apart(&self) -> S::Store {
        S::open(&self.url, &ConnectionOptions::default()).expect("the URL of a server")
    }

    fn prefix(&self) -> &str {
        &self.prefix
    }

    async fn hold(&self) {
        self.proxy.hold(Direction::Requests);
        self.proxy.hold(Direction::Replies);
    }

    async fn cut(&self) {
        self.proxy.refuse();
    }

    async fn mend(&self) {
        self.proxy.pass();
    }

    async fn restart(&self) {
        let server = self.alone.as_ref().expect("it was started alone");
        server.lock().expect("nothing panics").start_anew();
    }
}

impl Server for PostgresServer {
    type Store = PostgresStore;

    fn open(url: &str, options: &ConnectionOptions) -> Result<PostgresStore, String> {
        PostgresStore::new(url, options)
    }

    fn start_one() -> Self {
        PostgresServer::start()
    }

    fn shared() -> &'static Self {
        PostgresServer::shared()
    }

    fn host(&self) -> String {
        self.address()
    }

    fn url(&self, proxy: Option<&Proxy>) -> String {
        proxy.map_or_else(|| PostgresServer::url(self), |proxy| self.url_through(proxy))
    }

    fn start_anew(&mut self) {
        self.restart();
    }
}

impl Server for MariaDbServer {
    type Store = MysqlStore;

    fn open(url: &str, options: &ConnectionOptions) -> Result<MysqlStore, String> {
        MysqlStore::new(url, options)
    }

    fn start_one() -> Self {
        MariaDbServer::start()
    }

    fn shared() -> &'static Self {
        MariaDbServer::shared()
    }

    fn host(&self) -> String {
        self.address()
    }

    fn url(&self, proxy: Option<&Proxy>) -> String {
        proxy.map_or_else(|| MariaDbServer::url(self), |proxy| self.url_through(proxy))
    }

    fn start_anew(&mut self) {
        self.restart();
    }
}

impl Server for MemcachedServer {
    type Store = MemcachedStore;

    fn open(url: &str, options: &ConnectionOptions) -> Result<MemcachedStore, String> {
        MemcachedStore::new(url, options)
    }

    fn start_one() -> Self {
        MemcachedServer::start()
    }

    fn shared() -> &'static Self {
        MemcachedServer::shared()
    }

    fn host(&self) -> String {
        self.address()
    }

    fn url(&self, proxy: Option<&Proxy>) -> String {
        let host = proxy.map_or_else(|| self.address(), |proxy| proxy.address().to_string());
        format!("memcached://{host}")
    }

    fn start_anew(&mut self) {
        self.restart();
    }
}

/// Long enough that no session ends because the machine is slow.
const SESSION: &str = "session_timeout=60s";

impl Server for EtcdServers {
    type Store = EtcdStore;

    fn open(url: &str, options: &ConnectionOptions) -> Result<EtcdStore, String> {
        EtcdStore::new(url, options)
    }

    fn start_one() -> Self {
        EtcdServers::one()
    }

    fn shared() -> &'static Self {
        EtcdServers::shared()
    }

    fn host(&self) -> String {
        self.address(0)
    }

    fn url(&self, proxy: Option<&Proxy>) -> String {
        let host = proxy.map_or_else(|| self.address(0), |proxy| proxy.address().to_string());
        format!("etcd://{host}?{SESSION}")
    }

    fn start_anew(&mut self) {
        self.restart(0);
    }
}

impl Server for ZooKeeperServers {
    type Store = ZooKeeperStore;

    fn open(url: &str, options: &ConnectionOptions) -> Result<ZooKeeperStore, String> {
        ZooKeeperStore::new(url, options)
    }

    fn start_one() -> Self {
        ZooKeeperServers::one()
    }

    fn shared() -> &'static Self {
        ZooKeeperServers::shared()
    }

    fn host(&self) -> String {
        self.address(0)
    }

    fn url(&self, proxy: Option<&Proxy>) -> String {
        let host = proxy.map_or_else(|| self.address(0), |proxy| proxy.address().to_string());
        format!("zookeeper://{host}?{SESSION}")
    }

    fn start_anew(&mut self) {
        self.restart(0);
    }
}

/// A separate file. There is no server to cut off or to restart.
#[derive(Debug)]
pub struct OnSqlite(tempfile::TempDir);

impl Fixture for OnSqlite {
    type Store = SqliteStore;

    async fn start() -> Self {
        OnSqlite(tempfile::tempdir().expect("a directory"))
    }

    fn store(&self) -> SqliteStore {
        let url = format!("sqlite:{}/locks.db", self.0.path().display());
        SqliteStore::new(&url, &ConnectionOptions::default()).expect("the URL of a file")
    }
}
