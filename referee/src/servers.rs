//! The server of the locks. It is started for one run, disturbed, and checked after all clients have ended.

use std::time::{Duration, Instant};

use distlock_fixtures::{
    EtcdServers, MariaDbServer, MemcachedServer, PostgresServer, Proxy, RedisServer, ZooKeeperServers,
};

/// The store of a library's locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// One Redis server, which writes every command to the disk before it replies.
    Redis,
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    MySql,
    /// One etcd server.
    Etcd,
    /// One ZooKeeper server.
    ZooKeeper,
    /// Memcached, which forgets all locks when it is restarted. So it is stopped, and never killed.
    Memcached,
    /// A file.
    Sqlite,
    /// The process itself.
    Memory,
}

impl Store {
    /// The word on the command line.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "redis" => Self::Redis,
            "postgres" => Self::Postgres,
            "mysql" => Self::MySql,
            "etcd" => Self::Etcd,
            "zookeeper" => Self::ZooKeeper,
            "memcached" => Self::Memcached,
            "sqlite" => Self::Sqlite,
            "memory" => Self::Memory,
            _ => return None,
        })
    }

    /// Whether clients reach it over a link.
    #[must_use]
    pub fn has_server(self) -> bool {
        !matches!(self, Self::Sqlite | Self::Memory)
    }
}

/// A running server. It is ended when this is dropped.
#[derive(Debug)]
pub enum Server {
    /// See [`Store`].
    Redis(RedisServer),
    /// See [`Store`].
    Postgres(Box<PostgresServer>),
    /// See [`Store`].
    MySql(Box<MariaDbServer>),
    /// See [`Store`].
    Etcd(EtcdServers),
    /// See [`Store`].
    ZooKeeper(ZooKeeperServers),
    /// See [`Store`].
    Memcached(MemcachedServer),
    /// The directory of the file.
    Sqlite(tempfile::TempDir),
    /// There is no server.
    Memory,
}

/// Calls a method of the server, or of the only member of several; the last argument is what happens without one.
macro_rules! each {
    ($server:expr, $method:ident, $none:expr) => {
        match $server {
            Self::Redis(server) => server.$method(),
            Self::Postgres(server) => server.$method(),
            Self::MySql(server) => server.$method(),
            Self::Etcd(server) => server.$method(0),
            Self::ZooKeeper(server) => server.$method(0),
            Self::Memcached(server) => server.$method(),
            Self::Sqlite(_) | Self::Memory => $none,
        }
    };
}

impl Server {
    /// Starts a server.
    ///
    /// # Panics
    /// If the server does not start.
    #[must_use]
    #[expect(clippy::expect_used, reason = "there is no run without a directory")]
    pub fn start(store: Store) -> Self {
        match store {
            Store::Redis => Self::Redis(RedisServer::options().append_only().start()),
            Store::Postgres => Self::Postgres(Box::new(PostgresServer::start())),
            Store::MySql => Self::MySql(Box::new(MariaDbServer::start())),
            Store::Etcd => Self::Etcd(EtcdServers::one()),
            Store::ZooKeeper => Self::ZooKeeper(ZooKeeperServers::one()),
            Store::Memcached => Self::Memcached(MemcachedServer::start()),
            Store::Sqlite => Self::Sqlite(tempfile::tempdir().expect("a directory for the file")),
            Store::Memory => Self::Memory,
        }
    }

    /// A link of one client to it.
    #[must_use]
    pub fn link(&self) -> Option<Proxy> {
        let address = each!(self, address, return None);
        Some(Proxy::to(&address))
    }

    /// The URL for a client.
    #[must_use]
    pub fn url(&self, link: Option<&Proxy>) -> String {
        match (self, link) {
            (Self::Redis(_), Some(link)) => link.url(),
            (Self::Postgres(server), Some(link)) => server.url_through(link),
            (Self::MySql(server), Some(link)) => server.url_through(link),
            (Self::Etcd(_), Some(link)) => format!("etcd://{}", link.address()),
            (Self::ZooKeeper(_), Some(link)) => format!("zookeeper://{}", link.address()),
            (Self::Memcached(_), Some(link)) => format!("memcached://{}", link.address()),
            (Self::Sqlite(directory), _) => format!("sqlite:{}", directory.path().join("locks.db").display()),
            _ => "memory:".to_owned(),
        }
    }

    /// SIGSTOP.
    pub fn stop(&self) {
        each!(self, stop, {});
    }

    /// SIGCONT.
    pub fn cont(&self) {
        each!(self, cont, {});
    }

    /// Whether confirmed data survives when it is killed.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        !matches!(self, Self::Memcached(_) | Self::Sqlite(_) | Self::Memory)
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        each!(self, kill9, {});
    }

    /// Starts it again with its data, and returns when it serves.
    pub fn restart(&mut self) {
        each!(self, restart, {});
    }

    /// The data that is still on the server after this time: keys, rows of holders and waiters, or nodes of sessions.
    #[must_use]
    pub fn residue_after(&self, bound: Duration) -> Vec<String> {
        let start = Instant::now();
        loop {
            let left = self.residue();
            if left.is_empty() || start.elapsed() > bound {
                return left;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn residue(&self) -> Vec<String> {
        match self {
            Self::Redis(server) => redis_keys(&server.url()),
            Self::Postgres(server) => block_on(server.residue("distlock", "")),
            Self::MySql(server) => block_on(server.residue("distlock_", "")),
            Self::Etcd(server) => server.keys(""),
            Self::ZooKeeper(server) => server.ephemerals().into_values().flatten().collect(),
            Self::Memcached(server) => server.keys(),
            Self::Sqlite(_) | Self::Memory => Vec::new(),
        }
    }
}

/// Each key, and whether it expires.
fn redis_keys(url: &str) -> Vec<String> {
    let look = || -> redis::RedisResult<Vec<String>> {
        let mut server = redis::Client::open(url)?.get_connection()?;
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut server)?;
        let mut found = Vec::new();
        for key in keys {
            let left: i64 = redis::cmd("PTTL").arg(&key).query(&mut server)?;
            match left {
                -2 => {}
                -1 => found.push(format!("{key} (for ever)")),
                left => found.push(format!("{key} (for {} s)", left / 1_000)),
            }
        }
        found.sort();
        Ok(found)
    };
    look().unwrap_or_else(|error| vec![format!("unknown: {error}")])
}

#[expect(clippy::expect_used, reason = "there is no run without a runtime")]
fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(work)
}
