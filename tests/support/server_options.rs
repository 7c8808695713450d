//! How a test wants its server: everything a fault needs that is configuration.

use std::time::Duration;

use crate::RedisServer;

/// Options of a [`RedisServer`]; [`start`](ServerOptions::start) starts it.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    pub(crate) directives: Vec<String>,
    pub(crate) password: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) unix_socket: bool,
    pub(crate) cluster: bool,
    pub(crate) sentinel: bool,
    pub(crate) stepped_clock: bool,
}

impl ServerOptions {
    /// A line of `redis.conf`.
    #[must_use]
    pub fn directive(mut self, line: &str) -> Self {
        self.directives.push(line.to_owned());
        self
    }

    /// `requirepass`: the password of the default user, which [`RedisServer::url`] then carries.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.directive(&format!("requirepass {password}"))
    }

    /// An ACL user, e.g. `("worker", "on >secret ~shop:* &* +@all")`.
    #[must_use]
    pub fn user(self, name: &str, rules: &str) -> Self {
        self.directive(&format!("user {name} {rules}"))
    }

    /// Number of databases (default 16).
    #[must_use]
    pub fn databases(self, count: u32) -> Self {
        self.directive(&format!("databases {count}"))
    }

    /// Memory limit in bytes without eviction: a limit of 1 refuses every write that may grow memory.
    #[must_use]
    pub fn max_memory(self, bytes: u64) -> Self {
        self.directive(&format!("maxmemory {bytes}")).directive("maxmemory-policy noeviction")
    }

    /// Writes every command to disk before it is answered, so that a restart loses nothing.
    #[must_use]
    pub fn append_only(self) -> Self {
        self.directive("appendonly yes").directive("appendfsync always")
    }

    /// A replica of a master that is not there: every write is refused with `READONLY`.
    #[must_use]
    pub fn read_only(self) -> Self {
        self.directive("replicaof 127.0.0.1 1")
    }

    /// Also listens on a unix socket, see [`RedisServer::unix_url`].
    #[must_use]
    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// A wall clock of its own, see [`RedisServer::step_clock_forward`].
    #[must_use]
    pub fn stepped_clock(mut self) -> Self {
        self.stepped_clock = true;
        self
    }

    /// A node of a cluster, with a port for the other nodes.
    #[must_use]
    pub(crate) fn cluster_node(mut self, node_timeout: Duration) -> Self {
        self.cluster = true;
        self.directive(&format!("cluster-node-timeout {}", node_timeout.as_millis()))
            .directive("repl-diskless-sync-delay 0")
    }

    /// A replica of the server at this port.
    #[must_use]
    pub(crate) fn replica_of(self, port: u16) -> Self {
        self.directive(&format!("replicaof 127.0.0.1 {port}"))
    }

    /// A sentinel instead of a server.
    #[must_use]
    pub(crate) fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self
    }

    /// This port and no other.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Starts the server and returns when it answers.
    #[must_use]
    pub fn start(self) -> RedisServer {
        RedisServer::with(self)
    }
}
