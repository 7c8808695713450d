//! Creates a manager.

mod servers;

use std::fmt;
use std::time::Duration;

use super::store_slot::StoreSlot;
use crate::backend::Tuning;
use crate::manager_handle::Defaults;
use crate::release::Release;
use distlock_store::LockStore;
use distlock_store::kit::connection::ConnectionOptions;

/// Options of a [`LockManager`](crate::LockManager).
///
/// ```
/// # fn main() -> Result<(), distlock::LockError> {
/// use std::time::Duration;
///
/// use distlock::LockManager;
///
/// let manager = LockManager::builder()
///     .url("redis://127.0.0.1/")
///     .client_name("checkout")
///     .default_wait(Duration::from_secs(3))
///     .connect_lazy()?;
/// # Ok(())
/// # }
/// ```
#[doc(alias("config", "configuration", "settings"))]
#[must_use = "a builder does nothing until it connects"]
#[derive(Clone, Debug)]
pub struct LockManagerBuilder {
    pub(super) url: Option<Url>,
    pub(super) quorum: Vec<Url>,
    pub(super) store: Option<StoreSlot>,
    pub(super) prefix: String,
    pub(super) client_name: Option<String>,
    pub(super) gap: Duration,
    pub(super) replicas: Option<u32>,
    pub(super) connection: ConnectionOptions,
    pub(super) defaults: Defaults,
    pub(super) requires_fencing_tokens: bool,
}

/// `Debug` hides passwords and other values that may be secret.
#[derive(Clone)]
pub(super) struct Url(pub(super) String);

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.split_once("://") {
            Some((scheme, _)) => write!(f, "{scheme}://.."),
            None => f.write_str(".."),
        }
    }
}

impl Default for LockManagerBuilder {
    fn default() -> Self {
        LockManagerBuilder {
            url: None,
            quorum: Vec::new(),
            store: None,
            prefix: String::new(),
            client_name: None,
            gap: Tuning::default().poll_gap,
            replicas: None,
            connection: ConnectionOptions::default(),
            defaults: Defaults::default(),
            requires_fencing_tokens: false,
        }
    }
}

impl LockManagerBuilder {
    /// The URL of the store: see [`LockManager::connect`](crate::LockManager::connect).
    ///
    /// ```
    /// # fn main() -> Result<(), distlock::LockError> {
    /// let manager = distlock::LockManager::builder()
    ///     .url("redis://127.0.0.1/")
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn url(self, url: impl Into<String>) -> Self {
        LockManagerBuilder { url: Some(Url(url.into())), ..self }
    }

    /// Keeps every lock on a majority of these independent servers (Redlock), so that it survives the loss of a
    /// minority. It takes an odd number of URLs, at least three, each of a single server (`redis://`, `rediss://`,
    /// `redis+unix://`). The same as one URL: `redis+quorum://host1,host2,host3`.
    ///
    /// A quorum has only exclusive locks. Fencing tokens are available as usual. A server that was restarted or emptied
    /// may have lost a lock. It does not count until the longest ttl that any client has requested from these servers
    /// is over.
    ///
    /// Use a quorum for efficiency: if a lock must stay available when a server dies and a rare double run does no
    /// harm, or if services already lock on these servers by Redlock. For correctness, use Sentinel with `replicas(n)`
    /// and a fencing token that the database checks, or a store with consensus. A second holder is possible if a
    /// majority of the servers loses its data or has its clocks set forward at the same time, or if a server is emptied
    /// in the first moments of a lock while two others were unreachable. Keep the servers' clocks within a second of
    /// each other and `maxmemory-policy` at `noeviction`: a server that evicts keys is refused.
    ///
    /// ```
    /// # fn main() -> Result<(), distlock::LockError> {
    /// let servers = ["redis://a", "redis://b", "redis://c"];
    /// let manager = distlock::LockManager::builder().quorum(servers).connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("redlock", "RedissonRedLock", "majority"))]
    pub fn quorum<U: Into<String>>(self, urls: impl IntoIterator<Item = U>) -> Self {
        LockManagerBuilder { quorum: urls.into_iter().map(|url| Url(url.into())).collect(), ..self }
    }

    /// Keeps the locks in your own store: see [`store`](crate::store). A store serves one manager. A clone of this
    /// builder can create another manager only with another store.
    ///
    /// ```
    /// # use distlock::store::*;
    /// # #[derive(Debug)] struct MyStore;
    /// # impl LockStore for MyStore {
    /// #     fn describe(&self) -> String { "mine".into() }
    /// #     async fn acquire(&self, _: &Acquire) -> Result<AcquireReply, StoreError> {
    /// #         Ok(AcquireReply::Acquired { fence: None })
    /// #     }
    /// #     async fn renew(&self, _: &Renew) -> Result<RenewReply, StoreError> { Ok(RenewReply::Renewed) }
    /// #     async fn release(&self, _: &Release) -> Result<ReleaseReply, StoreError> { Ok(ReleaseReply::Released) }
    /// #     async fn inspect(&self, _: &str) -> Result<Option<StoredLock>, StoreError> { Ok(None) }
    /// #     async fn force_release(&self, _: &str) -> Result<bool, StoreError> { Ok(false) }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// let manager = distlock::LockManager::builder().store(MyStore).connect().await?;
    /// manager.lock("order:42").run(async |_held| { /* the work */ }).await
    /// # }
    /// ```
    #[doc(alias("backend", "custom store", "LockProvider"))]
    pub fn store(self, store: impl LockStore) -> Self {
        LockManagerBuilder { store: Some(StoreSlot::new(store)), ..self }
    }

    /// The prefix of every key and every other name on the server. Guards and errors show keys without it.
    ///
    /// Managers that share locks should use the same prefix. The names of a lock's queue and of the holders of a shared
    /// or limited lock contain prefix and key separately. If two managers split the same key differently (`"shop:"`
    /// with `k`, no prefix with `shop:k`), they still exclude each other, but their waiters do not share a queue, and
    /// requests for shared and limited locks of the other manager fail with
    /// [`LockError::WrongKind`](crate::LockError::WrongKind).
    ///
    /// A managed server or a proxy may spread keys over a cluster without reporting it. `connect` then fails, because a
    /// lock could be acquired there and not released. It succeeds if the prefix puts all locks into one slot by a hash
    /// tag: `key_prefix("{locks}:")`. If the cluster itself is reachable, use `redis+cluster://`, which needs no hash
    /// tag.
    ///
    /// ```
    /// # fn main() -> Result<(), distlock::LockError> {
    /// let manager = distlock::LockManager::builder()
    ///     .url("redis://127.0.0.1/")
    ///     .key_prefix("lock:")
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("namespace", "lockKeyPrefix"))]
    pub fn key_prefix(self, prefix: impl Into<String>) -> Self {
        LockManagerBuilder { prefix: prefix.into(), ..self }
    }

    /// The ttl of requests that do not set one. 30 s if not set.
    ///
    /// ```
    /// # fn main() -> Result<(), distlock::LockError> {
    /// use std::time::Duration;
    ///
    /// let manager = distlock::LockManager::builder()
    ///     .url("redis://127.0.0.1/")
    ///     .default_ttl(Duration::from_secs(10))
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("lockWatchdogTimeout", "default_lock_at_most_for", "lease_time", "expire"))]
    pub fn default_ttl(mut self, ttl: Duration) -> Self {
        self.defaults.ttl = ttl;
        self
    }

    /// How long a request waits if it does not set this itself. 10 s if not set.
    ///
    /// ```
    /// # fn main() -> Result<(), distlock::LockError> {
    /// use std::time::Duration;
    ///
    /// let manager = distlock::LockManager::builder()
    ///     .url("redis://127.0.0.1/")
    ///     .default_wait(Duration::from_secs(3))
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("acquire_timeout", "wait_time"))]
    pub fn default_wait(mut self, wait: Duration) -> Self {
        self.defaults.wait = wait;
        self
    }

    /// How long the server may be unreachable before a request fails with
    /// [`LockError::Unavailable`](crate::LockError::Unavailable). This also applies to a request that may wait longer
    /// for the lock, or without a limit. 3 s if not set. A request with a shorter wait fails after that wait. A single
    /// attempt fails after 1 s, or after this time if it is shorter.
    ///
    /// ```
    /// # fn main() -> Result<(), distlock::LockError> {
    /// use std::time::Duration;
    ///
    /// let manager = distlock::LockManager::builder()
    ///     .url("redis://127.0.0.1/")
    ///     .unavailable_after(Duration::from_secs(1))
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn unavailable_after(mut self, limit: Duration) -> Self {
        self.defaults.unavailable_after = limit;
        self
    }

    /// The largest number of requests of this process that may wait for one key. A further request fails with
    /// [`LockError::Busy`](crate::LockError::Busy) at once. No limit if not set. See
    /// [`LockRequest::max_waiters`](crate::LockRequest::max_waiters).
    ///
    /// ```
    /// # fn main() -> Result<(), distlock::LockError> {
    /// let manager = distlock::LockManager::builder()
    ///     .url("redis://127.0.0.1/")
    ///     .max_waiters(1000)
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn max_waiters(mut self, most: u32) -> Self {
        self.defaults.max_waiters = Some(most);
        self
    }

    /// Whether sections wait for the server's reply to their release; see
    /// [`LockRequest::release`](crate::LockRequest::release). [`Release::Confirmed`] if not set.
    ///
    /// ```
    /// # fn main() -> Result<(), distlock::LockError> {
    /// let manager = distlock::LockManager::builder()
    ///     .url("redis://127.0.0.1/")
    ///     .release(distlock::Release::Background)
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn release(mut self, release: Release) -> Self {
        self.defaults.release = release;
        self
    }

    /// How long this process keeps a lock after its last release, so that its next request needs no round trip. It
    /// applies to requests that do not set it and can use it (exclusive, one key, no `min_hold`). Never if not set. See
    /// [`LockRequest::linger`](crate::LockRequest::linger), also for the costs to other processes.
    ///
    /// ```
    /// # fn main() -> Result<(), distlock::LockError> {
    /// use std::time::Duration;
    ///
    /// let manager = distlock::LockManager::builder()
    ///     .url("redis://127.0.0.1/")
    ///     .linger(Duration::from_millis(50))
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn linger(mut self, linger: Duration) -> Self {
        self.defaults.linger = Some(linger);
        self
    }

    /// Warns when a request waits for longer than this, unless the request says otherwise; never if not set. See
    /// [`LockRequest::warn_wait`](crate::LockRequest::warn_wait).
    ///
    /// ```
    /// use std::time::Duration;
    /// use distlock::LockManager;
    ///
    /// # fn main() -> Result<(), distlock::LockError> {
    /// let manager = LockManager::builder()
    ///     .url("redis://127.0.0.1/")
    ///     .warn_wait(Duration::from_secs(5))
    ///     .warn_hold(Duration::from_secs(60))
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn warn_wait(mut self, limit: Duration) -> Self {
        self.defaults.warn_wait = Some(limit);
        self
    }

    /// Warns when a lock is held for longer than this, unless the request says otherwise; never if not set. See
    /// [`LockRequest::warn_hold`](crate::LockRequest::warn_hold).
    ///
    /// ```
    /// # fn main() -> Result<(), distlock::LockError> {
    /// use std::time::Duration;
    ///
    /// let manager = distlock::LockManager::builder()
    ///     .url("redis://127.0.0.1/")
    ///     .warn_hold(Duration::from_secs(60))
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn warn_hold(mut self, limit: Duration) -> Self {
        self.defaults.warn_hold = Some(limit);
        self
    }

    /// Whether a request that waits inside a section ends with
    /// [`LockError::WouldDeadlock`](crate::LockError::WouldDeadlock) if it is the youngest request of a deadlock, so
    /// that the other members get their locks. Never if not set: a deadlock is only reported, and lasts until a wait
    /// ends. The youngest request is the one that began to wait last, among those of managers that have this option. So
    /// set it for all processes that share locks. [`LockManager::deadlocks`](crate::LockManager::deadlocks) describes
    /// which deadlocks are seen. A deadlock is usually ended three seconds after it began, and at most 18.
    ///
    /// A store that keeps no texts next to its locks (Memcached) is refused with
    /// [`LockError::InvalidOptions`](crate::LockError::InvalidOptions).
    ///
    /// ```
    /// # fn main() -> Result<(), distlock::LockError> {
    /// let manager = distlock::LockManager::builder()
    ///     .url("redis://127.0.0.1/")
    ///     .break_deadlocks(true)
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("deadlock_timeout", "deadlock victim"))]
    pub fn break_deadlocks(mut self, breaks: bool) -> Self {
        self.defaults.break_deadlocks = breaks;
        self
    }

    /// Refuses a store that has no fencing tokens (Memcached) when the manager is made. Without this option, each
    /// [`fenced`](crate::LockRequest::fenced) request, and each annotated function with `token`, `fence`, `transaction`
    /// or `once`, fails when it is called. The error is
    /// [`LockError::InvalidOptions`](crate::LockError::InvalidOptions) with the reason.
    ///
    /// ```
    /// # fn main() -> Result<(), distlock::LockError> {
    /// let manager = distlock::LockManager::builder()
    ///     .url("redis://127.0.0.1/")
    ///     .require_fencing_tokens()
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn require_fencing_tokens(self) -> Self {
        LockManagerBuilder { requires_fencing_tokens: true, ..self }
    }

    /// A name for this process, which owner tokens and the server show. Letters, digits, `.`, `_` and `-`. A random
    /// part is added to it.
    ///
    /// ```
    /// # fn main() -> Result<(), distlock::LockError> {
    /// let manager = distlock::LockManager::builder()
    ///     .url("redis://127.0.0.1/")
    ///     .client_name("checkout")
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn client_name(self, name: impl Into<String>) -> Self {
        LockManagerBuilder { client_name: Some(name.into()), ..self }
    }

    /// Declares that the calling tokio runtime has I/O enabled, which `#[tokio::main]` and `enable_all()` do. While
    /// tasks of that runtime send requests to a Redis server at most 5 ms apart, the runtime then reads the replies
    /// itself. Without this call, the manager's own thread reads all replies, which costs one more thread switch for
    /// each.
    ///
    /// It applies to all managers of the process. It has no effect outside a runtime, on other stores, and on Windows.
    /// Do not call it on a runtime without I/O: tokio then panics. The panic is caught, but the panic hook runs.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// let manager = distlock::LockManager::builder()
    ///     .url("redis://127.0.0.1/")
    ///     .this_runtime_has_io()
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "redis")]
    pub fn this_runtime_has_io(self) -> Self {
        crate::backend::redis::this_runtime_has_io();
        self
    }

    /// How long a contended key stays free from time to time, so that other clients, which poll with `SET NX PX`, can
    /// acquire it. 5 ms if not set.
    ///
    /// While processes queue for a key, each release hands it to the next one, so a client that only polls would never
    /// find it free. Therefore, once in every 100 ms, at varying points, the key stays free for this long (once in 200
    /// ms if it is 10 ms or longer). A key that is contended only for a moment is hardly affected. For a key that is
    /// busy all the time, 5 ms in 100 ms cost about 4 % of its sections, and the next waiter waits longer by this time.
    /// [`Duration::ZERO`] turns the gaps off, for deployments in which every client uses this crate. At most 50 ms.
    ///
    /// A client that polls waits until one of its polls falls into a gap. On a key that processes of this
    /// crate keep busy all the time, with a gap of 5 ms in 100 ms, or 10 ms in 200 ms, that takes:
    ///
    /// | poll interval | expected wait | median measured | longer than 10 s |
    /// |---|---|---|---|
    /// | 50 ms | 1 s | 0.5 s | none of 415 waits |
    /// | 100 ms | 2 s | 1.0 s | below 1 % |
    /// | 200 ms | 4 s | 1.8 s | 1–5 % |
    /// | 250 ms | 5 s | 3.3 s | 8–14 % |
    /// | 500 ms | 10 s | 6 s (computed) | 34 % (computed) |
    ///
    /// With a gap of 10 ms or longer, the expected wait is the poll interval times 200 ms, divided by the gap. With 20
    /// ms, it is half as long as in the table. If other clients poll every 250 ms or more and give up after 10 s, make
    /// the gap longer, or let them poll more often.
    ///
    /// ```
    /// # fn main() -> Result<(), distlock::LockError> {
    /// use std::time::Duration;
    ///
    /// let manager = distlock::LockManager::builder()
    ///     .url("redis://127.0.0.1/")
    ///     .fairness_gap(Duration::ZERO)
    ///     .connect_lazy()?;
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias("fair", "starvation", "polling"))]
    pub fn fairness_gap(self, gap: Duration) -> Self {
        LockManagerBuilder { gap, ..self }
    }
}

#[cfg(test)]
#[cfg(feature = "redis")]
mod tests {
    use super::*;
    use distlock_store::kit::connection::Credentials;

    #[test]
    fn debug_output_shows_no_secret() {
        let builder = LockManagerBuilder::default()
            .url("redis://user:s3cret@h?x")
            .quorum(["redis://:s3cret@a", "s3cret"])
            .credentials(async || Ok::<_, String>(Credentials::password("s3cret")));
        let text = format!("{builder:?}");
        assert!(!text.contains("s3cret") && text.contains("redis://.."), "{text}");
    }

    #[test]
    fn schemes_may_be_in_upper_case() {
        assert!(LockManagerBuilder::default().url("MEMORY:").connect_lazy().is_ok());
        for url in ["REDIS://h", "Valkey+Quorum://a,b,c", "UNIX:///s", "redis+CLUSTER://h"] {
            assert!(LockManagerBuilder::default().url(url).connect_lazy().is_ok(), "{url}");
        }
        let error = LockManagerBuilder::default().url("memry:").connect_lazy().unwrap_err();
        assert!(error.to_string().contains("`memory:`"), "{error}");
    }

    #[test]
    fn time_outs_out_of_range_are_refused() {
        for builder in [
            LockManagerBuilder::default().response_timeout(Duration::ZERO),
            LockManagerBuilder::default().connect_timeout(Duration::MAX),
        ] {
            for url in ["redis://h", "redis+sentinel://h/m", "redis+cluster://h", "redis+quorum://a,b,c"] {
                let error = builder.clone().url(url).connect_lazy().unwrap_err();
                assert!(error.to_string().contains("between 10ms and 60s"), "{error}");
            }
        }
    }
}
