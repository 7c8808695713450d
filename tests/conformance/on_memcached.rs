//! The fixture for Memcached.

use distlock::testing::conformance::Fixture;
use distlock::{LockManager, LockManagerBuilder};
use distlock_fixtures::MemcachedServer;
use distlock_tests::Proxy;

/// A separate server, behind a proxy.
pub(crate) struct OnMemcached {
    server: MemcachedServer,
    proxy: Proxy,
}

impl Fixture for OnMemcached {
    async fn start() -> Self {
        let server = MemcachedServer::start();
        let proxy = Proxy::to(&server.address());
        OnMemcached { server, proxy }
    }

    fn builder(&self) -> LockManagerBuilder {
        LockManager::builder().url(format!("memcached://{}", self.proxy.address()))
    }

    async fn residue(&self) -> Vec<String> {
        self.server.keys()
    }

    async fn cut(&self) {
        self.proxy.refuse();
    }

    async fn mend(&self) {
        self.proxy.pass();
    }
}
