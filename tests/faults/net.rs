//! A server behind a link that can be broken, and a manager that knows only the link.

use distlock::LockManager;
use distlock_tests::{Proxy, RedisServer};

pub(crate) struct Net {
    pub(crate) server: RedisServer,
    pub(crate) proxy: Proxy,
    pub(crate) manager: LockManager,
}

pub(crate) async fn net() -> Net {
    let server = RedisServer::start();
    let proxy = Proxy::to(&server.address());
    let manager = LockManager::connect(&proxy.url()).await.unwrap();
    Net { server, proxy, manager }
}
