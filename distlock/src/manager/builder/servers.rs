//! The options that concern the servers and the connections to them.

use std::error::Error;
use std::time::Duration;

use super::LockManagerBuilder;
use distlock_store::kit::connection::{AddressMap, Credentials, Provider, TlsOptions};

impl LockManagerBuilder {
    /// The number of replicas that must confirm every acquisition before it counts (WAIT; an ACL user needs
    /// `+wait`); zero, the default: none. The same as `?replicas=n` in the URL.
    ///
    /// Replication is asynchronous: when a master dies, an acquisition that no replica has received is lost
    /// with it, and the promoted replica grants the lock again. If all replicas must confirm, no fail-over
    /// loses an acquisition; if fewer must, only a fail-over to a replica that has not confirmed loses one. A
    /// lock that too few replicas confirm is released, and the request fails with
    /// [`LockError::Unavailable`](crate::LockError::Unavailable)
    /// once that has lasted for [`unavailable_after`](Self::unavailable_after). It costs a second round trip.
    /// Renewals are not confirmed: on a replica that has missed one the lock ends earlier, and its holder is
    /// told.
    ///
    /// For one Redis server, or a master that sentinels watch. A cluster refuses it.
    ///
    /// ```
    /// # fn main() -> Result<(), distlock::LockError> {
    /// let manager = distlock::LockManager::builder()
    ///     .url("redis://127.0.0.1/")
    ///     .replicas(1)
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("WAIT", "min_replicas"))]
    pub fn replicas(self, replicas: u32) -> Self {
        LockManagerBuilder { replicas: Some(replicas), ..self }
    }

    /// How long one attempt to connect may take, from resolving the name to the last reply of the handshake:
    /// 3 s if not set, 5 s on ZooKeeper. For servers that are far away, or that start on demand. From 10 ms to
    /// a minute. The same as `?connect_timeout=5s` in the URL.
    ///
    /// ```
    /// # fn main() -> Result<(), distlock::LockError> {
    /// use std::time::Duration;
    ///
    /// let manager = distlock::LockManager::builder()
    ///     .url("redis://127.0.0.1/")
    ///     .connect_timeout(Duration::from_secs(10))
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connection.connect_timeout = Some(timeout);
        self
    }

    /// How long the server may be silent while it owes a reply, before the connection counts as broken and is
    /// replaced. The same as `?response_timeout=1s` in the URL.
    ///
    /// | store | if not set | from 10 ms to |
    /// |---|---|---|
    /// | Redis: servers, sentinels, nodes, and replicas that must confirm (see [`replicas`](Self::replicas)) | 500 ms | 60 s |
    /// | Memcached | 1 s | 4 s |
    /// | etcd | 2 s | 4 s |
    /// | SQLite: how long a command waits for other processes that write | 2 s | 4 s |
    /// | PostgreSQL, MySQL | 3 s | 4 s |
    /// | ZooKeeper | 4 s, and at most two fifths of `session_timeout` | 4 s |
    ///
    /// With a longer time a hung server is noticed later, and a lease may end before its renewal is sent
    /// again: choose a ttl that is a multiple of this time.
    ///
    /// ```
    /// # fn main() -> Result<(), distlock::LockError> {
    /// use std::time::Duration;
    ///
    /// let manager = distlock::LockManager::builder()
    ///     .url("redis://127.0.0.1/")
    ///     .response_timeout(Duration::from_secs(1))
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("command_timeout", "socket_timeout"))]
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.connection.response_timeout = Some(timeout);
        self
    }

    /// Asks `provider` for user and password, instead of taking them from the URL: for passwords and tokens
    /// that change while the program runs. (Sentinels have credentials of their own, which are given in the
    /// URL.)
    ///
    /// It is called for every new connection, also for those that replace broken ones, and again before
    /// credentials expire, if they tell when ([`Credentials::valid_for`]). The new credentials are then sent
    /// (AUTH) on the open connections, which loses no command; if that fails it is tried again, and a warning
    /// is logged. A connection that cannot carry AUTH (the one for pushes, if the server does not speak
    /// RESP3) is made again.
    ///
    /// The future runs on the manager's I/O thread, within a tokio runtime, and must not block it; it may be
    /// dropped at any await. Its time counts towards [`connect_timeout`](Self::connect_timeout). An error or
    /// a panic is a failed attempt to connect, which is repeated like others.
    ///
    /// ```
    /// use std::time::Duration;
    /// use distlock::{Credentials, LockManager};
    ///
    /// # async fn token() -> Result<String, std::io::Error> { Ok("t".into()) }
    /// # fn main() -> Result<(), distlock::LockError> {
    /// let manager = LockManager::builder()
    ///     .url("redis://cache.example:6379/")
    ///     .credentials(|| async {
    ///         let token = token().await?;
    ///         Ok::<_, std::io::Error>(Credentials::new("app", token).valid_for(Duration::from_secs(900)))
    ///     })
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("password", "user", "IAM", "token", "AUTH"))]
    pub fn credentials<F, Fut, E>(mut self, provider: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.connection.credentials = Some(Provider::new(provider));
        self
    }

    /// How servers are verified and which client certificate is used, for a URL with TLS. These options take
    /// precedence over the URL.
    ///
    /// ```
    /// use distlock::{LockManager, TlsOptions};
    ///
    /// # #[cfg(feature = "tls")]
    /// # fn main() -> Result<(), distlock::LockError> {
    /// let tls = TlsOptions::new().system_roots();
    /// let manager = LockManager::builder().url("rediss://redis.example/").tls(tls).connect_lazy()?;
    /// # Ok(()) }
    /// # #[cfg(not(feature = "tls"))] fn main() {}
    /// ```
    #[doc(alias("ssl", "rustls", "certificate", "mTLS"))]
    pub fn tls(mut self, options: TlsOptions) -> Self {
        self.connection.tls = Some(options);
        self
    }

    /// Replaces addresses that sentinels and the nodes of a cluster announce by those at which they can be
    /// reached from here: for NAT, port forwarding and containers. `map` gets the announced host and port;
    /// `None`: as announced. Addresses in the URL are used as they are.
    ///
    /// ```
    /// use distlock::LockManager;
    ///
    /// # fn main() -> Result<(), distlock::LockError> {
    /// let manager = LockManager::builder()
    ///     .url("redis+cluster://localhost:17001/")
    ///     .address_map(|_host, port| Some(("localhost".to_owned(), 10_000 + port)))
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn address_map(
        mut self,
        map: impl Fn(&str, u16) -> Option<(String, u16)> + Send + Sync + 'static,
    ) -> Self {
        self.connection.address_map = Some(AddressMap::new(map));
        self
    }
}
