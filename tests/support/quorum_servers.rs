//! Five servers that know nothing of each other.

use std::sync::OnceLock;

use crate::{RedisServer, keeper};

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
        Self::url_of(self.servers.iter().map(RedisServer::address))
    }

    /// `redis+quorum://…` of other addresses, for example of links to these servers.
    #[must_use]
    pub fn url_of(addresses: impl IntoIterator<Item = String>) -> String {
        format!("redis+quorum://{}", addresses.into_iter().collect::<Vec<_>>().join(","))
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
