//! Options of the servers and of the connections to them.

use std::error::Error;
use std::time::Duration;

use super::LockManagerBuilder;
use distlock_store::kit::connection::{AddressMap, Credentials, Provider, TlsOptions};

impl LockManagerBuilder {
    /// The number of replicas that must confirm every acquisition and every renewal before it counts. The default is
    /// zero. The command is WAIT, so an ACL user needs `+wait`. The same as `?replicas=n` in the URL.
    ///
    /// Replication is asynchronous: when a master dies, an acquisition that no replica has received is lost with it,
    /// and the promoted replica grants the lock again. If all replicas must confirm, no fail-over loses an acquisition.
    /// If fewer must confirm, only a fail-over to a replica that has not confirmed loses one. If too few replicas
    /// confirm a lock, it is released, and the request fails with
    /// [`LockError::Unavailable`](crate::LockError::Unavailable) after [`unavailable_after`](Self::unavailable_after).
    /// The confirmation costs a second round trip.
    ///
    /// If too few replicas confirm a renewal, it is repeated, and the lock is lost at the end of its lease. So a master
    /// that is cut off from its replicas does not keep a second holder after another one was promoted. The price is
    /// that a loss of replicas for longer than the ttl costs the locks. With one replica, this includes the time after
    /// a fail-over until the old master is back.
    ///
    /// For one Redis server, or a master behind Sentinel. A cluster refuses this option.
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

    /// How long one attempt to connect may take, from name resolution to the last reply of the handshake. 3 s if not
    /// set, 5 s on ZooKeeper. Increase it for distant servers, and for servers that start on demand. From 10 ms to a
    /// minute. The same as `?connect_timeout=5s` in the URL.
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

    /// How long the server may be silent while a reply is due. After that, the connection counts as broken and is
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
    /// With a longer time, a hung server is noticed later, and a lease may end before its renewal is sent again. Choose
    /// a ttl that is a multiple of this time.
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

    /// Gets user and password from `provider` instead of the URL, for passwords and tokens that change while the
    /// program runs. (Sentinels have their own credentials, which are in the URL.)
    ///
    /// It is called for every new connection, including replacements of broken ones. It is called again before
    /// credentials expire, if they have an expiry ([`Credentials::valid_for`]). The new credentials are then sent
    /// (AUTH) on the open connections, which loses no command. If AUTH fails, it is retried, and a warning is logged. A
    /// connection that cannot carry AUTH (the connection for pushes, if the server does not speak RESP3) is replaced.
    ///
    /// The future runs on the manager's I/O thread, within a tokio runtime. It must not block the thread, and it may be
    /// dropped at any await. Its time counts towards [`connect_timeout`](Self::connect_timeout). An error or a panic is
    /// a failed attempt to connect, which is retried as usual.
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

    /// For a URL with TLS: how servers are verified, and which certificate the client presents. These options take
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

    /// Replaces the addresses that sentinels and cluster nodes announce by addresses that this process can reach, for
    /// NAT, port forwarding and containers. `map` gets the announced host and port. `None` keeps the announced address.
    /// Addresses in the URL are not mapped. If `map` panics, there is a warning, and the announced address is kept.
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
