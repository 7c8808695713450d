//! The compared lock libraries, behind one trait.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::Script;
use redis::aio::MultiplexedConnection;

use crate::Result;

/// The ttl of every lock.
pub const TTL: Duration = Duration::from_secs(30);
/// Longer than any bench.
const NEVER: Duration = Duration::from_secs(3_600);

/// A connected lock library, cheap to clone.
pub trait Locks: Clone + Send + Sync + 'static {
    /// A lock that is held.
    type Guard: Send + 'static;

    /// Its name in tables.
    const NAME: &'static str;

    /// Connects with the recommended settings of the library.
    fn connect(url: &str) -> impl Future<Output = Result<Self>> + Send;

    /// Waits until the lock is held.
    fn acquire(&self, key: &str) -> impl Future<Output = Result<Self::Guard>> + Send;

    /// Releases the lock, and waits for the server's reply.
    fn release(guard: Self::Guard) -> impl Future<Output = Result<()>> + Send;
}

/// distlock's runtime interface.
#[derive(Clone, Debug)]
pub struct Distlock(pub distlock::LockManager);

impl Locks for Distlock {
    type Guard = distlock::Guard;
    const NAME: &'static str = "distlock";

    async fn connect(url: &str) -> Result<Self> {
        let builder = distlock::LockManager::builder().url(url).default_ttl(TTL);
        Ok(Distlock(builder.this_runtime_has_io().connect().await?))
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        Ok(self.0.lock(key).wait_forever().acquire().await?)
    }

    async fn release(guard: Self::Guard) -> Result<()> {
        Ok(guard.release().await?)
    }
}

/// [`Distlock`] without the gaps for clients that poll.
#[derive(Clone, Debug)]
pub struct WithoutGaps(Distlock);

impl Locks for WithoutGaps {
    type Guard = distlock::Guard;
    const NAME: &'static str = "distlock, no fairness gap";

    async fn connect(url: &str) -> Result<Self> {
        let builder = distlock::LockManager::builder().url(url).default_ttl(TTL).this_runtime_has_io();
        Ok(WithoutGaps(Distlock(builder.fairness_gap(Duration::ZERO).connect().await?)))
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        self.0.acquire(key).await
    }

    async fn release(guard: Self::Guard) -> Result<()> {
        Distlock::release(guard).await
    }
}

/// Simple code without a library: `SET NX PX`, a loop that polls, compare-and-delete.
#[derive(Clone, Debug)]
pub struct Raw {
    connection: MultiplexedConnection,
    release: Script,
    client: u64,
    count: Arc<AtomicU64>,
}

/// Whether the kernel holds small writes back until earlier ones were acknowledged (`TCP_NODELAY` not set).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nagle {
    /// The default of redis-rs. It collects commands under load, so it is the better setting with many tasks.
    On,
    /// The better setting with few tasks.
    Off,
}

impl Raw {
    /// Connects with one of the two settings.
    ///
    /// # Errors
    /// If the server is unreachable.
    pub async fn connect_with(url: &str, nagle: Nagle) -> Result<Raw> {
        let info: redis::ConnectionInfo = url.parse()?;
        let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(nagle == Nagle::Off);
        let client = redis::Client::open(info.set_tcp_settings(tcp))?;
        // A busy machine must not end the bench.
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let release = Script::new(
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
        );
        Ok(Raw { connection, release, client: fastrand::u64(..), count: Arc::default() })
    }
}

/// [`Raw`] with redis-rs's default settings.
#[derive(Clone, Debug)]
pub struct RawDefaults(Raw);

impl Locks for RawDefaults {
    type Guard = RawGuard;
    const NAME: &'static str = "raw SET NX, redis-rs's defaults";

    async fn connect(url: &str) -> Result<Self> {
        Ok(RawDefaults(Raw::connect_with(url, Nagle::On).await?))
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        self.0.acquire(key).await
    }

    async fn release(guard: Self::Guard) -> Result<()> {
        Raw::release(guard).await
    }
}

/// A lock of [`Raw`].
#[derive(Debug)]
pub struct RawGuard {
    locks: Raw,
    key: String,
    token: String,
}

impl Locks for Raw {
    type Guard = RawGuard;
    const NAME: &'static str = "raw SET NX, polling 50–100 ms";

    async fn connect(url: &str) -> Result<Self> {
        Raw::connect_with(url, Nagle::Off).await
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        let mut locks = self.clone();
        let token = format!("{:x}:{}", self.client, self.count.fetch_add(1, Ordering::Relaxed));
        let ttl = u64::try_from(TTL.as_millis())?;
        loop {
            let mut set = redis::cmd("SET");
            set.arg(key).arg(&token).arg("NX").arg("PX").arg(ttl);
            let done: Option<String> = set.query_async(&mut locks.connection).await?;
            if done.is_some() {
                return Ok(RawGuard { locks, key: key.to_owned(), token });
            }
            tokio::time::sleep(Duration::from_millis(fastrand::u64(50..=100))).await;
        }
    }

    async fn release(guard: Self::Guard) -> Result<()> {
        let RawGuard { mut locks, key, token } = guard;
        let deleted: i64 = locks.release.key(key).arg(token).invoke_async(&mut locks.connection).await?;
        if deleted == 1 { Ok(()) } else { Err("the raw lock was lost".into()) }
    }
}

/// rslock.
#[derive(Clone, Debug)]
pub struct Rslock(rslock::LockManager);

impl Rslock {
    /// On a majority of several servers.
    #[must_use]
    pub fn over(urls: &[String]) -> Rslock {
        Rslock(rslock::LockManager::new(urls.iter().map(String::as_str).collect()))
    }
}

impl Locks for Rslock {
    type Guard = rslock::LockGuard;
    const NAME: &'static str = "rslock 0.10";

    async fn connect(url: &str) -> Result<Self> {
        Ok(Rslock(rslock::LockManager::new(vec![url])))
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        Ok(self.0.acquire(key, TTL).await?)
    }

    async fn release(guard: Self::Guard) -> Result<()> {
        guard.release().await;
        Ok(())
    }
}

/// rlock.
#[derive(Clone, Debug)]
pub struct Rlock(rlock::async_lock::RLock);

impl Locks for Rlock {
    type Guard = rlock::async_lock::RLockGuard;
    const NAME: &'static str = "rlock 0.2";

    async fn connect(url: &str) -> Result<Self> {
        Ok(Rlock(rlock::async_lock::RLock::new(url).await?))
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        Ok(self.0.acquire_mutex(key).await?)
    }

    async fn release(mut guard: Self::Guard) -> Result<()> {
        Ok(guard.release().await?)
    }
}

/// async-redis-lock.
#[derive(Clone)]
pub struct AsyncRedisLock(async_redis_lock::Locker);

impl Locks for AsyncRedisLock {
    type Guard = async_redis_lock::Lock;
    const NAME: &'static str = "async-redis-lock 0.4";

    async fn connect(url: &str) -> Result<Self> {
        Ok(AsyncRedisLock(async_redis_lock::Locker::from_redis_url(url).await?))
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        let options = async_redis_lock::Options::new().timeout(Some(NEVER));
        Ok(self.0.acquire_with_options(&options, key).await?)
    }

    async fn release(guard: Self::Guard) -> Result<()> {
        Ok(guard.release().await?)
    }
}

impl std::fmt::Debug for AsyncRedisLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AsyncRedisLock")
    }
}
