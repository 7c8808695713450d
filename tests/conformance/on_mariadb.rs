//! The fixture for MariaDB.

use std::sync::atomic::{AtomicU32, Ordering};

use distlock::testing::conformance::Fixture;
use distlock::{LockManager, LockManagerBuilder};
use distlock_fixtures::MariaDbServer;
use distlock_tests::Proxy;

/// Separate keys on one server, behind a proxy.
pub(crate) struct OnMariaDb {
    server: &'static MariaDbServer,
    proxy: Proxy,
    prefix: String,
}

impl Fixture for OnMariaDb {
    async fn start() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let server = MariaDbServer::shared();
        let prefix = format!("rule{}:", NEXT.fetch_add(1, Ordering::Relaxed));
        OnMariaDb { server, proxy: Proxy::to(&server.address()), prefix }
    }

    fn builder(&self) -> LockManagerBuilder {
        LockManager::builder().url(self.server.url_through(&self.proxy)).key_prefix(&*self.prefix)
    }

    fn prefix(&self) -> &str {
        &self.prefix
    }

    async fn residue(&self) -> Vec<String> {
        self.server.residue("distlock_", &self.prefix).await
    }

    async fn cut(&self) {
        self.proxy.refuse();
    }

    async fn mend(&self) {
        self.proxy.pass();
    }
}
