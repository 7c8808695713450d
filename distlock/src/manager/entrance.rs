//! Making a manager, and asking it for locks.

use std::env::VarError;

use super::{LockManager, LockManagerBuilder};
use crate::error::LockError;
use crate::key::{IntoLockKey, LockKey};
use crate::request::{Keys, LockRequest};
use crate::scope;
use crate::ticket::Ticket;

impl LockManager {
    /// Connects to the store at `url`. While the server cannot be reached, it tries again for 5 s (or for the
    /// `connect_timeout`, if that is longer); see [`LockManagerBuilder::connect`].
    ///
    /// `redis://[user:password@]host[:port][/db]`, `valkey://…`, `rediss://…` (feature `tls`),
    /// `redis+unix:///path[?db=0&user=…&pass=…]`, `memory:`.
    ///
    /// `redis+sentinel://[user:password@]host[:port],host[:port],…/master[/db]`: the server that the
    /// sentinels at these hosts name as the master `master`. User and password are for that server; those for
    /// the sentinels are given as `?sentinel_user=…&sentinel_pass=…`. The manager follows a fail-over.
    /// Replication is asynchronous, so the new master may not know of a lock that was acquired just before;
    /// its holder is then told that the lock is lost. To avoid this, let replicas confirm every acquisition
    /// with `?replicas=n` (see [`LockManagerBuilder::replicas`]).
    ///
    /// `redis+cluster://[user:password@]host[:port],host[:port],…`: a Redis Cluster; list one or more of its
    /// nodes. Everything that belongs to a lock lies in the slot of its key. The manager follows a fail-over
    /// as above, and a slot that moves; fencing tokens are comparable per key. Locks of several slots can be
    /// acquired together: they are acquired in order, and released if one of them cannot be acquired. While a
    /// slot is being moved, a release in it waits for the end of the move.
    ///
    /// `redis+quorum://[user:password@]host[:port],host[:port],…[/db]`: independent servers, of which a
    /// majority keeps each lock (Redlock); see [`quorum`](LockManagerBuilder::quorum).
    ///
    /// With TLS (feature `tls`): `rediss://…`, `rediss+sentinel://…`, `rediss+cluster://…`,
    /// `rediss+quorum://…`. The root certificates of the web are trusted; with `?ca=/path/ca.pem` only that
    /// authority. `cert=/path/cert.pem&key=/path/key.pem` name the client certificate, for a server that asks
    /// for one.
    ///
    /// `etcd://[user:password@]host[:port],host[:port],…[/root]`, with TLS `etcds://…` (feature `etcd`): the
    /// members of an etcd cluster, 3.4 or later. Locks survive the death of a minority of them without a second
    /// holder, and are handed on in the order in which they were asked for, over all processes. Exclusive locks
    /// only. All locks of the process hang on one session, which ends `?session_timeout=10s` after the
    /// process's last sign of life (if not given: the `default_ttl`): a crashed holder delays others by that
    /// time, and a process that cannot reach etcd for that time has lost its locks, whatever their ttls. Keys
    /// lie below `root` (if not given: `distlock`). The same parameters as above for TLS; more in
    /// [docs/etcd.md](https://github.com/distlock/distlock/blob/main/docs/etcd.md).
    ///
    /// `zookeeper://[user:password@]host[:port],host[:port],…[/path]` (feature `zookeeper`): the members of a
    /// ZooKeeper ensemble, 3.5 or later. Locks survive the death of a minority of them without a second holder.
    /// They live as long as the session of the process (`?session_timeout=10s`), as with etcd. A process stays at
    /// a member that is cut off from the others until that member closes its connections, `syncLimit` ticks later:
    /// its locks outlive that if `session_timeout` is above twice that time, else they are lost, and their holders
    /// are told. Exclusive locks only, without `min_hold`. Nodes lie below `path` (if not given: `/distlock`);
    /// more in [docs/zookeeper.md](https://github.com/distlock/distlock/blob/main/docs/zookeeper.md).
    ///
    /// # Errors
    /// [`LockError::InvalidOptions`] for a URL that is not understood, at once. [`LockError::Unavailable`] if
    /// the server refuses, at once, or cannot be reached within that time.
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
    /// [`LockError::InvalidOptions`] for a URL that is not understood.
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

    /// More options.
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
    /// [`LockError::InvalidOptions`] if the variable is missing or not understood; otherwise as
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
            // The value may contain a password: it is not quoted.
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

    /// The manager that an annotated function would use here: that of [`with_manager`](crate::with_manager),
    /// or else that of [`init`](crate::init). Use it to pass the manager to a spawned task, which does not
    /// inherit it.
    ///
    /// # Errors
    /// [`LockError::NotInitialized`] if there is none.
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

    /// A request for the lock named `key`. A key that is not valid is reported when the request is acquired.
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

    /// A request for the lock that was [handed over](crate::Guard::hand_over) with this ticket. It does not
    /// wait for anybody, whatever its `wait`: either the lock is still held by the one who handed it over, and goes on
    /// with this process, or the ticket is worthless. The lock is never free in between, and waiters keep their places.
    ///
    /// The request has the ttl of the one who handed the lock over, and is [`fenced`](LockRequest::fenced) if that was;
    /// its fencing token is larger. All other options are its own.
    ///
    /// A ticket is good for one take-over. A request that this process already has for the key waits behind it.
    ///
    /// # Errors
    /// Those of [`acquire`](LockRequest::acquire), except `Busy`, and [`LockError::InvalidTicket`] if the ticket was
    /// used, its lease has ended, or the manager has another prefix. `Busy` if this process takes over another ticket
    /// for the same key at this moment.
    ///
    /// # Cancel safety
    /// If the future of the request is dropped, the lock may have been taken over: then it is released in the
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

    /// A request for several locks: all or nothing. Keys are sorted, and acquired and awaited in that order
    /// only, so callers that name them in different orders cannot deadlock; duplicates count once. A lock
    /// that is acquired while another one is held is outside that order: only its `wait` limits it. The
    /// `wait` applies to all keys together.
    ///
    /// Free keys are acquired by one command, up to 100 of them (in a cluster: keys that are next to each
    /// other in the order and share a slot, as `{order:42}:stock` and `{order:42}:cash` do). At a busy key
    /// the request waits; it holds the keys before that one, and those behind it stay free. Then another
    /// command acquires the rest. All of them are released in one round trip.
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
