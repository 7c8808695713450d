//! Five servers that know nothing of each other.

use std::sync::OnceLock;

use crate::{Proxy, RedisServer, keeper};

const SERVERS: usize = 5;

/// Five independent servers, of which a majority decides.
#[derive(Debug)]
pub struct QuorumServers {
    servers: Vec<RedisServer>,
}

impl QuorumServers {
    /// Five servers of a test's own.
    #[must_use]
    pub fn start() -> Self {
        Self { servers: (0..SERVERS).map(|_| RedisServer::start()).collect() }
    }

    /// The same, each with a wall clock of its own.
    #[must_use]
    pub fn with_stepped_clocks() -> Self {
        Self { servers: (0..SERVERS).map(|_| RedisServer::options().stepped_clock().start()).collect() }
    }

    /// The five that all tests of this process share, and that none may harm.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<QuorumServers> = OnceLock::new();
        SHARED.get_or_init(|| {
            let servers = Self::start();
            keeper::end_with_this_process(&servers.servers);
            servers
        })
    }

    /// `redis+quorum://…`
    #[must_use]
    pub fn url(&self) -> String {
        url(self.servers.iter().map(RedisServer::address))
    }

    /// A link in front of each server.
    #[must_use]
    pub fn links(&self) -> Vec<Proxy> {
        self.servers.iter().map(|server| Proxy::to(&server.address())).collect()
    }

    /// `redis+quorum://…` of the servers behind these links.
    #[must_use]
    pub fn url_of(links: &[Proxy]) -> String {
        url(links.iter().map(|link| link.address().to_string()))
    }

    /// The servers.
    #[must_use]
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The servers, to be killed and restarted.
    pub fn servers_mut(&mut self) -> &mut [RedisServer] {
        &mut self.servers
    }
}

fn url(addresses: impl Iterator<Item = String>) -> String {
    format!("redis+quorum://{}", addresses.collect::<Vec<_>>().join(","))
}
