//! The fixture for etcd.

use std::sync::atomic::{AtomicU32, Ordering};

use distlock::testing::conformance::{Fixture, Queue};
use distlock::{LockManager, LockManagerBuilder};
use distlock_tests::{EtcdServers, Proxy};

/// A separate root on one member, behind a proxy.
pub(crate) struct OnEtcd {
    server: &'static EtcdServers,
    proxy: Proxy,
    root: String,
}

impl Fixture for OnEtcd {
    const QUEUE: Queue = Queue::Shown;

    async fn start() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let server = EtcdServers::shared();
        let root = format!("rule{}", NEXT.fetch_add(1, Ordering::Relaxed));
        OnEtcd { server, proxy: Proxy::to(&server.address(0)), root }
    }

    /// The session is longer than any ttl whose end a rule checks.
    fn builder(&self) -> LockManagerBuilder {
        let (address, root) = (self.proxy.address(), &self.root);
        LockManager::builder().url(format!("etcd://{address}/{root}?session_timeout=60s"))
    }

    /// The key of a session stays until the lease of its process ends.
    async fn residue(&self) -> Vec<String> {
        self.server.keys(&format!("{}/locks/", self.root))
    }

    async fn cut(&self) {
        self.proxy.refuse();
    }

    async fn mend(&self) {
        self.proxy.pass();
    }
}
