//! The fixture for ZooKeeper.

use std::sync::atomic::{AtomicU32, Ordering};

use distlock::testing::conformance::{Fixture, Queue};
use distlock::{LockManager, LockManagerBuilder};
use distlock_tests::{Proxy, ZooKeeperServers};

/// A separate root on one server, behind a proxy.
pub(crate) struct OnZooKeeper {
    server: &'static ZooKeeperServers,
    proxy: Proxy,
    root: String,
}

impl Fixture for OnZooKeeper {
    const QUEUE: Queue = Queue::Shown;

    async fn start() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let server = ZooKeeperServers::shared();
        let root = format!("/rule{}", NEXT.fetch_add(1, Ordering::Relaxed));
        OnZooKeeper { server, proxy: Proxy::to(&server.address(0)), root }
    }

    /// The session is longer than any ttl whose end a rule checks.
    fn builder(&self) -> LockManagerBuilder {
        let (address, root) = (self.proxy.address(), &self.root);
        LockManager::builder().url(format!("zookeeper://{address}{root}?session_timeout=60s"))
    }

    /// The nodes of locks are containers, which the server removes some time after they became empty.
    async fn residue(&self) -> Vec<String> {
        self.server.places(&self.root)
    }

    async fn cut(&self) {
        self.proxy.refuse();
    }

    async fn mend(&self) {
        self.proxy.pass();
    }
}
