//! Creates a manager, and requests locks from it.

use std::env::VarError;

use super::{LockManager, LockManagerBuilder};
use crate::error::LockError;
use crate::key::{IntoLockKey, LockKey};
use crate::request::{Keys, LockRequest};
use crate::scope;
use crate::ticket::Ticket;

impl LockManager {
    /// Connects to the store at `url`. While the server is unreachable, it retries for 5 s, or longer if one
    /// attempt may take longer: see [`LockManagerBuilder::connect`].
    ///
    /// `redis://[user:password@]host[:port][/db]`, `valkey://…`, `rediss://…` (feature `tls`),
    /// `redis+unix:///path[?db=0&user=…&pass=…]`, `memory:`.
    ///
    /// `redis+sentinel://[user:password@]host[:port],host[:port],…/master[/db]`: the server that the sentinels at these
    /// hosts name as the master `master`. User and password are for that server. For the sentinels, use
    /// `?sentinel_user=…&sentinel_pass=…`. The manager follows a fail-over. Replication is asynchronous, so the new
    /// master may not have a lock that was acquired just before. Its holder then loses the lock. To avoid this, let
    /// replicas confirm every acquisition with `?replicas=n` (see [`LockManagerBuilder::replicas`]).
    ///
    /// `redis+cluster://[user:password@]host[:port],host[:port],…`: a Redis Cluster. List one or more of its nodes. All
    /// data of a lock is in the slot of its key. The manager follows a fail-over, with the same risk as with Sentinel,
    /// and it follows a slot that moves. Fencing tokens are comparable per key. Locks of several slots can be acquired
    /// together. They are acquired in order, and released if one of them cannot be acquired. While a slot is being
    /// moved, a release in it waits for the end of the move.
    ///
    /// `sharded+redis://[user:password@]host[:port],host[:port],…[/db]`: independent servers, each of which has a share
    /// of the keys. All clients must list the same servers. A client with another list is refused. Keys with the same
    /// hash tag are on the same server. While a server is unreachable, the keys of the others can be locked. Fencing
    /// tokens are comparable per key. More in
    /// [docs/redis.md](https://github.com/distlock/distlock/blob/main/docs/redis.md#servers-that-share-the-keys).
    ///
    /// `redis+quorum://[user:password@]host[:port],host[:port],…[/db]`: independent servers. A majority of them keeps
    /// each lock (Redlock): see [`quorum`](LockManagerBuilder::quorum).
    ///
    /// With TLS (feature `tls`): `rediss://…`, `rediss+sentinel://…`, `rediss+cluster://…`, `rediss+quorum://…`,
    /// `sharded+rediss://…`. The public root certificates are trusted. With `?ca=/path/ca.pem`, only that authority is
    /// trusted. `cert=/path/cert.pem&key=/path/key.pem` name the client certificate, for a server that requests one.
    ///
    /// `etcd://[user:password@]host[:port],host[:port],…[/root]`, with TLS `etcds://…` (feature `etcd`): the members of
    /// an etcd cluster, 3.4 or later. If a minority of them dies, locks survive without a second holder. Locks are
    /// granted in the order of the requests of all processes. All locks of a process depend on one session. The session
    /// ends `?session_timeout=10s` (if not given: the `default_ttl`) after the last heartbeat of the process. So a
    /// crashed holder delays others by that time, and a process that cannot reach etcd for that time loses all of its
    /// locks, whatever their ttls. Keys are below `root` (if not given: `distlock`). TLS has the same parameters as
    /// Redis. More in [docs/etcd.md](https://github.com/distlock/distlock/blob/main/docs/etcd.md).
    ///
    /// `zookeeper://[user:password@]host[:port],host[:port],…[/path]` (feature `zookeeper`): the members of a ZooKeeper
    /// ensemble, 3.5 or later. If a minority of them dies, locks survive without a second holder. They live as long as
    /// the session of the process (`?session_timeout=10s`), as with etcd. If a member is cut off from the others, it
    /// closes its connections after `syncLimit` ticks, and its clients stay connected to it until then. Their locks
    /// survive this if `session_timeout` is above twice that time. Otherwise the holders lose them. `min_hold` is not
    /// available. Nodes are below `path` (if not given: `/distlock`). More in
    /// [docs/zookeeper.md](https://github.com/distlock/distlock/blob/main/docs/zookeeper.md).
    ///
    /// `postgres://…`, `mysql://…` (also `mariadb://…`), `memcached://…` and `sqlite:///path` (features of the same
    /// names): see [docs/postgres.md](https://github.com/distlock/distlock/blob/main/docs/postgres.md),
    /// [docs/mysql.md](https://github.com/distlock/distlock/blob/main/docs/mysql.md),
    /// [docs/memcached.md](https://github.com/distlock/distlock/blob/main/docs/memcached.md)
    /// and [docs/sqlite.md](https://github.com/distlock/distlock/blob/main/docs/sqlite.md).
    ///
    /// # Errors
    /// [`LockError::InvalidOptions`] at once, if the URL is invalid. [`LockError::Unavailable`] at once if the server
    /// refuses the connection permanently, or later if it is unreachable for that time.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// ```
    /// # async fn doc() -> Result<(), distlock::LockError> {
    /// use distlock::LockManager;
    ///
    /// let manager = LockManager::connect("redis://127.0.0.1/").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("open", "redis", "valkey", "postgres", "etcd", "zookeeper", "mysql", "memcached"))]
    pub fn connect(url: impl AsRef<str>) -> impl Future<Output = Result<Self, LockError>> + Send {
        LockManager::builder().url(url.as_ref()).connect()
    }

    /// Like [`connect`](LockManager::connect), but connects on first use.
    ///
    /// # Errors
    /// [`LockError::InvalidOptions`] if the URL is invalid.
    ///
    /// ```
    /// # fn main() -> Result<(), distlock::LockError> {
    /// use distlock::LockManager;
    ///
    /// let manager = LockManager::connect_lazy("redis://127.0.0.1/")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect_lazy(url: impl AsRef<str>) -> Result<Self, LockError> {
        LockManager::builder().url(url.as_ref()).connect_lazy()
    }

    /// Returns a builder, for more options.
    ///
    /// ```
    /// # fn main() -> Result<(), distlock::LockError> {
    /// use std::time::Duration;
    ///
    /// use distlock::LockManager;
    ///
    /// let manager = LockManager::builder()
    ///     .url("redis://127.0.0.1/")
    ///     .key_prefix("lock:")
    ///     .default_ttl(Duration::from_secs(10))
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> LockManagerBuilder {
        LockManagerBuilder::default()
    }

    /// Connects to the URL in the environment variable `DISTLOCK_URL`.
    ///
    /// # Errors
    /// [`LockError::InvalidOptions`] if the variable is missing or its URL is invalid, and the other errors of
    /// [`connect`](LockManager::connect).
    ///
    /// # Cancel safety
    /// Cancel-safe.
    ///
    /// ```
    /// # async fn doc() -> Result<(), distlock::LockError> {
    /// let manager = distlock::LockManager::from_env().await?; // DISTLOCK_URL=redis://127.0.0.1/
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("DISTLOCK_URL", "environment"))]
    pub fn from_env() -> impl Future<Output = Result<Self, LockError>> + Send {
        Box::pin(async {
            // The value is not quoted, because it may contain a password.
            let problem = match std::env::var("DISTLOCK_URL") {
                Ok(url) => return LockManager::connect(url).await,
                Err(VarError::NotPresent) => "is not set",
                Err(VarError::NotUnicode(_)) => "is not UTF-8",
            };
            Err(LockError::options(format!(
                "the environment variable DISTLOCK_URL {problem}; set it to, for example, redis://127.0.0.1/"
            )))
        })
    }

    /// The manager that an annotated function would use here: the manager of [`with_manager`](crate::with_manager), or
    /// else of [`init`](crate::init). Use it to pass the manager to a spawned task, which does not inherit it.
    ///
    /// # Errors
    /// [`LockError::NotInitialized`] if there is no manager.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// use distlock::{LockManager, with_manager};
    ///
    /// with_manager(manager, async {
    ///     let manager = LockManager::current().expect("inside `with_manager`");
    ///     // A spawned task does not inherit it.
    ///     tokio::spawn(with_manager(manager, async { /* annotated functions */ }));
    /// }).await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn current() -> Result<Self, LockError> {
        scope::manager().map(LockManager)
    }

    /// A request for the lock named `key`. If the key is invalid, the request fails when it is acquired.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let guard = manager.lock("order:42").acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("mutex", "getLock", "NewMutex", "RLock", "SET NX PX", "setnx", "advisory lock"))]
    pub fn lock(&self, key: impl IntoLockKey) -> LockRequest {
        LockRequest::new(self.0.clone(), key.into_lock_key().map(Keys::One))
    }

    /// A request for the lock that was [handed over](crate::Guard::hand_over) with this ticket. It does not wait
    /// for another holder, whatever its `wait` is. This process gets the lock if the lease of the ticket still exists.
    /// Otherwise, the request fails. The lock is never free in between, and waiters keep their places.
    ///
    /// The request has the ttl of the guard that was handed over, and is [`fenced`](LockRequest::fenced) if that guard
    /// was. Its fencing token is larger. All other options are those of a new request.
    ///
    /// A ticket can be used once. Other requests of this process for the key wait behind it.
    ///
    /// # Errors
    /// The errors of [`acquire`](LockRequest::acquire), except `Busy`, and [`LockError::InvalidTicket`] if the ticket
    /// was used, if its lease has expired, or if the manager has another prefix. `Busy` if this process is taking over
    /// another ticket for the same key.
    ///
    /// # Cancel safety
    /// If the future of the request is dropped, the lock may have been taken over. Then it is released in the
    /// background, and the ticket is used.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// let first = manager.lock("order:42").fenced().acquire().await?;
    /// let (before, ticket) = (first.fencing_token(), first.hand_over().await?);
    ///
    /// let guard = manager.take_over(&ticket).acquire().await?;
    /// assert!(guard.fencing_token() > before);
    /// assert!(manager.take_over(&ticket).acquire().await.is_err());
    /// guard.release().await
    /// # }
    /// ```
    #[doc(alias("restoreLock", "transfer", "adopt"))]
    pub fn take_over(&self, ticket: &Ticket) -> LockRequest {
        LockRequest::take_over(self.0.clone(), ticket)
    }

    /// Whether locks of this manager's store can be [handed over](crate::Guard::hand_over). Call it before work that
    /// ends with a ticket. It sends nothing.
    ///
    /// # Errors
    /// [`LockError::InvalidOptions`] with the reason, if the store cannot replace a holder.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// manager.check_hand_over()?;
    /// let guard = manager.lock("build").acquire().await?;
    /// // .. long work
    /// println!("{}", guard.hand_over().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn check_hand_over(&self) -> Result<(), LockError> {
        self.0.core().backend.cannot_replace().map_or(Ok(()), |reason| Err(LockError::options(reason)))
    }

    /// A request for several locks: all or nothing. The keys are sorted, and acquired in that order only, so callers
    /// that name them in different orders cannot deadlock. Duplicates count once. A separate request that is made while
    /// another lock is held is outside that order. Only its `wait` then ends a deadlock. The `wait` applies to all keys
    /// together.
    ///
    /// One command acquires up to 100 free keys (in a cluster: keys that are next to each other in the order and share
    /// a slot, such as `{order:42}:stock` and `{order:42}:cash`). At a busy key, the request waits. It then holds the
    /// keys before this key, and the keys after it stay free. After the wait, another command acquires the rest. All
    /// keys are released in one round trip.
    ///
    /// ```
    /// # async fn doc(manager: distlock::LockManager) -> Result<(), distlock::LockError> {
    /// let both = manager.lock_all(["account:1", "account:2"]).acquire().await?;
    /// assert_eq!(both.keys().count(), 2);
    /// # both.release().await }
    /// ```
    #[doc(alias("multi lock", "getMultiLock", "MultiLock"))]
    pub fn lock_all<K: IntoLockKey>(&self, keys: impl IntoIterator<Item = K>) -> LockRequest {
        let keys: Result<Vec<LockKey>, LockError> =
            keys.into_iter().map(IntoLockKey::into_lock_key).collect();
        let keys = keys.map(|mut keys| {
            keys.sort_unstable();
            keys.dedup();
            Keys::Several(keys)
        });
        LockRequest::new(self.0.clone(), keys)
    }
}
