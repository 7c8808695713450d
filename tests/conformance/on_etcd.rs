//! A place for locks on etcd.

use distlock::testing::conformance::{Fixture, Queue};
use distlock::{LockManager, LockManagerBuilder};
use distlock_tests::{EtcdServers, Proxy};

/// A member of its own, with a proxy before it.
pub(crate) struct OnEtcd {
    server: EtcdServers,
    proxy: Proxy,
}

impl Fixture for OnEtcd {
    const QUEUE: Queue = Queue::Shown;

    async fn start() -> Self {
        let server = EtcdServers::one();
        let proxy = Proxy::to(&server.address(0));
        OnEtcd { server, proxy }
    }

    /// The session is longer than any ttl whose end a rule looks at.
    fn builder(&self) -> LockManagerBuilder {
        LockManager::builder().url(format!("etcd://{}?session_timeout=60s", self.proxy.address()))
    }

    /// The key of a session stays until the lease of its process ends.
    async fn residue(&self) -> Vec<String> {
        self.server.keys("distlock/locks/")
    }

    async fn cut(&self) {
        self.proxy.refuse();
    }

    async fn mend(&self) {
        self.proxy.pass();
    }
}
