//! Fixtures for the stores that come with the crate.

use std::sync::atomic::{AtomicU32, Ordering};

use distlock::testing::conformance::{Fixture, Processes, Queue};
use distlock::{LockManager, LockManagerBuilder};
use distlock_fixtures::PostgresServer;
use distlock_tests::{Backend, Proxy, RedisServer, residue};

/// A fixture with separate keys on a [`Backend`].
macro_rules! on {
    ($(#[$doc:meta])* $name:ident, $backend:ident) => {
        $(#[$doc])*
        pub(crate) struct $name(Backend);

        impl Fixture for $name {
            const QUEUE: Queue = Queue::Shown;

            async fn start() -> Self {
                $name(Backend::$backend())
            }

            fn builder(&self) -> LockManagerBuilder {
                self.0.builder().expect("it is a server")
            }

            fn prefix(&self) -> &str {
                self.0.prefix()
            }

            async fn residue(&self) -> Vec<String> {
                residue::left_below(self.0.servers(), self.0.prefix())
            }
        }
    };
}

on!(/** Keys of its own on the master that sentinels watch. */ OnSentinel, sentinel);
on!(/** Keys of its own in a cluster. */ OnCluster, cluster);
on!(/** Keys of its own on five independent servers. */ OnQuorum, quorum);
on!(/** Keys of its own on servers that share the keys. */ OnShards, shards);

/// A separate server, behind a proxy.
pub(crate) struct OnRedis {
    server: RedisServer,
    proxy: Proxy,
}

impl Fixture for OnRedis {
    const QUEUE: Queue = Queue::Shown;

    async fn start() -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::to(&server.address());
        OnRedis { server, proxy }
    }

    fn builder(&self) -> LockManagerBuilder {
        LockManager::builder().url(self.proxy.url())
    }

    async fn residue(&self) -> Vec<String> {
        residue::left_below(std::slice::from_ref(&self.server), "")
    }

    async fn cut(&self) {
        self.proxy.refuse();
    }

    async fn mend(&self) {
        self.proxy.pass();
    }
}

/// Separate keys on one PostgreSQL server, behind a proxy.
pub(crate) struct OnPostgres {
    server: &'static PostgresServer,
    proxy: Proxy,
    prefix: String,
}

impl Fixture for OnPostgres {
    const QUEUE: Queue = Queue::Shown;

    async fn start() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let server = PostgresServer::shared();
        let prefix = format!("rule{}:", NEXT.fetch_add(1, Ordering::Relaxed));
        OnPostgres { server, proxy: Proxy::to(&server.address()), prefix }
    }

    fn builder(&self) -> LockManagerBuilder {
        let url = self.server.url_through(&self.proxy);
        LockManager::builder().url(url).key_prefix(&*self.prefix)
    }

    fn prefix(&self) -> &str {
        &self.prefix
    }

    async fn residue(&self) -> Vec<String> {
        self.server.residue("distlock", &self.prefix).await
    }

    async fn cut(&self) {
        self.proxy.refuse();
    }

    async fn mend(&self) {
        self.proxy.pass();
    }
}

/// The memory of one manager.
pub(crate) struct OnMemory(LockManager);

impl Fixture for OnMemory {
    const PROCESSES: Processes = Processes::One;
    const QUEUE: Queue = Queue::Shown;

    async fn start() -> Self {
        OnMemory(LockManager::in_memory())
    }

    fn builder(&self) -> LockManagerBuilder {
        LockManager::builder().url("memory:")
    }

    async fn manager(&self) -> LockManager {
        self.0.clone()
    }
}
