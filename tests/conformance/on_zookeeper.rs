//! A place for locks on ZooKeeper.

use distlock::testing::conformance::{Fixture, Queue};
use distlock::{LockManager, LockManagerBuilder};
use distlock_tests::{Proxy, ZooKeeperServers};

/// A server of its own, with a proxy before it.
pub(crate) struct OnZooKeeper {
    server: ZooKeeperServers,
    proxy: Proxy,
}

impl Fixture for OnZooKeeper {
    const QUEUE: Queue = Queue::Shown;

    async fn start() -> Self {
        let server = ZooKeeperServers::one();
        let proxy = Proxy::to(&server.address(0));
        OnZooKeeper { server, proxy }
    }

    /// The session is longer than any ttl whose end a rule looks at.
    fn builder(&self) -> LockManagerBuilder {
        LockManager::builder().url(format!("zookeeper://{}?session_timeout=60s", self.proxy.address()))
    }

    /// Nodes of locks are containers: the server removes them when they have been empty for a while.
    async fn residue(&self) -> Vec<String> {
        self.server.places("/distlock")
    }

    async fn cut(&self) {
        self.proxy.refuse();
    }

    async fn mend(&self) {
        self.proxy.pass();
    }
}
