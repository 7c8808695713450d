//! Those who lock, and where.

use std::future::Future;
use std::time::Duration;

use crate::Result;
use crate::etcd::EtcdServer;
use crate::postgres::PostgresOnDisk;

/// Something that locks: connected, cheap to clone.
pub(crate) trait Locks: Clone + Send + Sync + 'static {
    type Guard: Send + 'static;

    /// `name` is that of this client, and nobody else's.
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

/// All who lock, by what they are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    Distlock,
    EtcdTxn,
    EtcdQueue,
    EtcdLockCall,
    PostgresRow,
    PostgresPrototype,
}

impl Contender {
    pub(crate) const ALL: [Contender; 6] = [
        Contender::Distlock,
        Contender::EtcdTxn,
        Contender::EtcdQueue,
        Contender::EtcdLockCall,
        Contender::PostgresRow,
        Contender::PostgresPrototype,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Contender::Distlock => "distlock",
            Contender::EtcdTxn => "raw Txn on a shared lease",
            Contender::EtcdQueue => "raw queue, one standing watch",
            Contender::EtcdLockCall => "the server's Lock call",
            Contender::PostgresRow => "raw lease row, polled",
            Contender::PostgresPrototype => "direct-grant prototype",
        }
    }
}

/// Connects a contender and hands it to an expression.
macro_rules! with_contender {
    ($contender:expr, $url:expr, $name:expr, $locks:ident => $body:expr) => {
        match $contender {
            $crate::locks::Contender::Distlock => {
                let $locks = <$crate::locks::Distlock as $crate::locks::Locks>::connect($url, $name).await?;
                $body
            }
            $crate::locks::Contender::EtcdTxn => {
                let $locks = <$crate::etcd::RawTxn as $crate::locks::Locks>::connect($url, $name).await?;
                $body
            }
            $crate::locks::Contender::EtcdQueue => {
                let $locks = <$crate::etcd::RawQueue as $crate::locks::Locks>::connect($url, $name).await?;
                $body
            }
            $crate::locks::Contender::EtcdLockCall => {
                let $locks = <$crate::etcd::LockCall as $crate::locks::Locks>::connect($url, $name).await?;
                $body
            }
            $crate::locks::Contender::PostgresRow => {
                let $locks =
                    <$crate::postgres::LeaseRow as $crate::locks::Locks>::connect($url, $name).await?;
                $body
            }
            $crate::locks::Contender::PostgresPrototype => {
                let $locks =
                    <$crate::postgres::Prototype as $crate::locks::Locks>::connect($url, $name).await?;
                $body
            }
        }
    };
}
pub(crate) use with_contender;

/// A server that runs.
pub(crate) enum Server {
    Etcd(EtcdServer),
    Postgres(PostgresOnDisk),
}

impl Server {
    /// What it has been asked.
    pub(crate) async fn requests(&self) -> Result<u64> {
        match self {
            Server::Etcd(server) => server.requests(),
            Server::Postgres(server) => server.requests().await,
        }
    }

    /// The same when those who asked have gone.
    pub(crate) async fn settled_requests(&self) -> Result<u64> {
        if let Server::Postgres(server) = self {
            server.until_alone().await?;
        }
        self.requests().await
    }

    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        match self {
            Server::Etcd(server) => server.cpu_time(),
            Server::Postgres(server) => server.cpu_time(),
        }
    }
}

/// A server, as it is used in one part of the run.
pub(crate) struct Place<'a> {
    pub(crate) name: &'static str,
    pub(crate) server: &'a Server,
    /// For distlock, and for the raw clients.
    pub(crate) ours: String,
    pub(crate) raw: String,
    /// The least that one can write.
    pub(crate) least: Contender,
    /// Those that wait for each other.
    pub(crate) queues: &'static [Contender],
}

impl Place<'_> {
    pub(crate) fn url(&self, contender: Contender) -> &str {
        if contender == Contender::Distlock { &self.ours } else { &self.raw }
    }
}
