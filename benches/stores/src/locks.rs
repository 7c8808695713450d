//! The contenders, and their servers.

use std::future::Future;
use std::time::Duration;

use distlock_fixtures::{MariaDbServer, MemcachedServer, ZooKeeperServers};

use crate::Result;
use crate::etcd::EtcdServer;
use crate::kinds;
use crate::postgres::PostgresOnDisk;

/// A connected contender, cheap to clone.
pub(crate) trait Locks: Clone + Send + Sync + 'static {
    type Guard: Send + 'static;

    /// `name` is a unique name for this client.
    fn connect(url: &str, name: &str) -> impl Future<Output = Result<Self>> + Send;
    fn acquire(&self, key: &str) -> impl Future<Output = Result<Self::Guard>> + Send;
    fn release(guard: Self::Guard) -> impl Future<Output = Result<()>> + Send;
}

/// distlock.
#[derive(Clone)]
pub(crate) struct Distlock(pub(crate) distlock::LockManager);

impl Locks for Distlock {
    type Guard = distlock::Guard;

    async fn connect(url: &str, name: &str) -> Result<Self> {
        Ok(Distlock(distlock::LockManager::builder().url(url).client_name(name).connect().await?))
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        Ok(self.0.lock(key).wait_forever().acquire().await?)
    }

    async fn release(guard: Self::Guard) -> Result<()> {
        Ok(guard.release().await?)
    }
}

/// All contenders, by their names.
macro_rules! contenders {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Contender {
            $($variant),+
        }

        impl Contender {
            pub(crate) const ALL: &[Contender] = &[$(Contender::$variant),+];

            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Contender::$variant => $name),+
                }
            }
        }
    };
}

pub(crate) use contenders;

contenders! {
    Distlock = "distlock",
    EtcdTxn = "raw Txn on a shared lease",
    EtcdQueue = "raw queue, one standing watch",
    EtcdLockCall = "the server's Lock call",
    PostgresRow = "raw lease row, polled",
    PostgresPrototype = "direct-grant prototype",
    ZooKeeperNode = "raw create and delete of an ephemeral",
    ZooKeeperRecipe = "the client's recipe",
    MariaDbRow = "raw lease row, pauses of 0.5 to 1.5 ms",
    MariaDbRowCalm = "raw lease row, distlock's pauses",
    MariaDbGetLock = "raw lease row, GET_LOCK as the wait",
    MemcachedItem = "raw ms ME and md C, pauses of 0.5 to 1.5 ms",
    MemcachedItemCalm = "raw ms ME and md C, distlock's pauses",
}

/// Connects a contender, and passes it to an expression.
macro_rules! with_contender {
    ($contender:expr, $url:expr, $name:expr, $locks:ident => $body:expr) => {
        $crate::locks::with_contender!(@one_of $contender, $url, $name, $locks => $body;
            Distlock: $crate::locks::Distlock,
            EtcdTxn: $crate::etcd::RawTxn,
            EtcdQueue: $crate::etcd::RawQueue,
            EtcdLockCall: $crate::etcd::LockCall,
            PostgresRow: $crate::postgres::LeaseRow,
            PostgresPrototype: $crate::postgres::Prototype,
            ZooKeeperNode: $crate::zookeeper::RawNode,
            ZooKeeperRecipe: $crate::zookeeper::Recipe,
            MariaDbRow: $crate::mariadb::RawRow<$crate::pauses::Short>,
            MariaDbRowCalm: $crate::mariadb::RawRow<$crate::pauses::Growing>,
            MariaDbGetLock: $crate::mariadb::RowBehindGetLock<$crate::pauses::Short>,
            MemcachedItem: $crate::memcached::RawItem<$crate::pauses::Short>,
            MemcachedItemCalm: $crate::memcached::RawItem<$crate::pauses::Growing>)
    };
    (@one_of $contender:expr, $url:expr, $name:expr, $locks:ident => $body:expr; $($variant:ident: $type:ty),+) => {
        match $contender {
            $($crate::locks::Contender::$variant => {
                let $locks = <$type as $crate::locks::Locks>::connect($url, $name).await?;
                $body
            })+
        }
    };
}
pub(crate) use with_contender;

/// A running server.
pub(crate) enum Server {
    Etcd(EtcdServer),
    Postgres(PostgresOnDisk),
    ZooKeeper(ZooKeeperServers),
    MariaDb(MariaDbServer),
    Memcached(MemcachedServer),
}

impl Server {
    /// The number of requests that it has received, including a few of this bench itself.
    pub(crate) async fn requests(&self) -> Result<u64> {
        match self {
            Server::Etcd(server) => server.requests(),
            Server::Postgres(server) => server.requests().await,
            Server::ZooKeeper(server) => Ok(server.figure(0, "zk_packets_received")),
            Server::MariaDb(server) => Ok(u64::try_from(server.statements().await)?),
            Server::Memcached(server) => Ok(server.commands()),
        }
    }

    /// The number of requests after all clients have disconnected.
    pub(crate) async fn settled_requests(&self) -> Result<u64> {
        if let Server::Postgres(server) = self {
            server.until_alone().await?;
        }
        self.requests().await
    }

    /// The CPU time of the server, if its processes can be identified.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        match self {
            Server::Etcd(server) => server.cpu_time(),
            Server::Postgres(server) => server.cpu_time(),
            Server::ZooKeeper(_) | Server::MariaDb(_) | Server::Memcached(_) => {
                Err("not measured here".into())
            }
        }
    }
}

/// A server in one part of the run.
pub(crate) struct Place<'a> {
    pub(crate) name: &'static str,
    pub(crate) server: &'a Server,
    /// The URLs for distlock, and for the raw clients.
    pub(crate) ours: String,
    pub(crate) raw: String,
    /// The simplest possible code.
    pub(crate) least: Contender,
    /// The contenders with waiters.
    pub(crate) queues: &'static [Contender],
    /// The contenders with shared and limited locks.
    pub(crate) kinds: &'static [kinds::Contender],
    /// The parts to measure here.
    pub(crate) parts: &'static [&'static str],
    /// The number of locks before the measurement, so that a virtual machine has compiled the server's code by then.
    pub(crate) warm_up: u32,
}

impl Place<'_> {
    pub(crate) fn url(&self, contender: Contender) -> &str {
        if contender == Contender::Distlock { &self.ours } else { &self.raw }
    }
}
