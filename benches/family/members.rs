//! The libraries with more than an exclusive lock on one key, behind one trait.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_redis_lock::{Lock, Locker, Options};
use distlock::LockManager;
use distlock_benches::Result;
use distlock_benches::contenders::TTL;
use distributed_lock_core::traits::{
    DistributedReaderWriterLock, DistributedSemaphore, LockHandle, ReaderWriterLockProvider,
    SemaphoreProvider,
};
use distributed_lock_redis::{
    RedisLockProvider, RedisReadLockHandle, RedisSemaphoreHandle, RedisWriteLockHandle,
};
use rlock::async_lock::{RLock, RLockGuard, RMultiKeyLockGuard, RReadLockGuard, RWriteLockGuard};
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard};
use tokio::sync::{OwnedSemaphorePermit, RwLock, Semaphore};

/// The request of a task for the key of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// No other holder.
    Alone,
    /// Other readers, but no writer.
    Read,
    /// No other holder, while the other tasks may be readers.
    Write,
    /// Fewer than this many other holders.
    Limited(u32),
    /// No other holder, on two keys.
    Both,
}

/// A connected library, cheap to clone.
pub(crate) trait Member: Clone + Send + Sync + 'static {
    type Guard: Send + 'static;

    const NAME: &'static str;

    fn offers(ask: Ask) -> bool;

    fn connect(url: &str) -> impl Future<Output = Result<Self>> + Send;

    fn acquire(&self, ask: Ask, key: &str) -> impl Future<Output = Result<Self::Guard>> + Send;

    fn release(guard: Self::Guard) -> impl Future<Output = Result<()>> + Send;
}

/// Two keys. In a cluster, they would share a slot.
fn both(key: &str) -> [String; 2] {
    [format!("{{{key}}}:a"), format!("{{{key}}}:b")]
}

fn not_offered<T>(name: &str) -> Result<T> {
    Err(format!("{name} has no such lock").into())
}

#[derive(Clone)]
pub(crate) struct Distlock(LockManager);

impl Member for Distlock {
    type Guard = distlock::Guard;
    const NAME: &'static str = "distlock";

    fn offers(_: Ask) -> bool {
        true
    }

    async fn connect(url: &str) -> Result<Self> {
        Ok(Distlock(LockManager::builder().url(url).default_ttl(TTL).connect().await?))
    }

    async fn acquire(&self, ask: Ask, key: &str) -> Result<Self::Guard> {
        let request = match ask {
            Ask::Alone | Ask::Write => self.0.lock(key),
            Ask::Read => self.0.lock(key).shared(),
            Ask::Limited(limit) => self.0.lock(key).max_holders(limit),
            Ask::Both => self.0.lock_all(both(key)),
        };
        Ok(request.wait_forever().acquire().await?)
    }

    async fn release(guard: Self::Guard) -> Result<()> {
        Ok(guard.release().await?)
    }
}

#[derive(Clone)]
pub(crate) struct Rlock(RLock);

pub(crate) enum RlockGuard {
    Alone(RLockGuard),
    Read(RReadLockGuard),
    Write(RWriteLockGuard),
    Both(RMultiKeyLockGuard),
}

impl Member for Rlock {
    type Guard = RlockGuard;
    const NAME: &'static str = "rlock 0.2";

    fn offers(ask: Ask) -> bool {
        !matches!(ask, Ask::Limited(_))
    }

    async fn connect(url: &str) -> Result<Self> {
        Ok(Rlock(RLock::new(url).await?))
    }

    async fn acquire(&self, ask: Ask, key: &str) -> Result<Self::Guard> {
        Ok(match ask {
            Ask::Alone => RlockGuard::Alone(self.0.acquire_mutex(key).await?),
            Ask::Read => RlockGuard::Read(self.0.acquire_read(key).await?),
            Ask::Write => RlockGuard::Write(self.0.acquire_write(key).await?),
            Ask::Both => RlockGuard::Both(self.0.acquire_multi_key_mutex(both(key).to_vec()).await?),
            Ask::Limited(_) => return not_offered(Self::NAME),
        })
    }

    async fn release(guard: Self::Guard) -> Result<()> {
        match guard {
            RlockGuard::Alone(mut guard) => guard.release().await?,
            RlockGuard::Read(mut guard) => guard.release().await?,
            RlockGuard::Write(mut guard) => guard.release().await?,
            RlockGuard::Both(mut guard) => guard.release().await?,
        }
        Ok(())
    }
}

#[derive(Clone)]
pub(crate) struct DistributedLock(Arc<RedisLockProvider>);

pub(crate) enum DistributedLockGuard {
    Read(RedisReadLockHandle),
    Write(RedisWriteLockHandle),
    Limited(RedisSemaphoreHandle),
}

impl Member for DistributedLock {
    type Guard = DistributedLockGuard;
    const NAME: &'static str = "distributed-lock 0.2";

    fn offers(ask: Ask) -> bool {
        matches!(ask, Ask::Read | Ask::Write | Ask::Limited(_))
    }

    async fn connect(url: &str) -> Result<Self> {
        Ok(DistributedLock(Arc::new(RedisLockProvider::builder().url(url).expiry(TTL).build().await?)))
    }

    async fn acquire(&self, ask: Ask, key: &str) -> Result<Self::Guard> {
        match ask {
            Ask::Read => {
                let lock = self.0.create_reader_writer_lock(key);
                // Its `acquire_read` does not wait. It ends with `Timeout` if there is a writer.
                loop {
                    if let Some(handle) = lock.try_acquire_read().await? {
                        return Ok(DistributedLockGuard::Read(handle));
                    }
                    tokio::time::sleep(Duration::from_millis(fastrand::u64(50..=100))).await;
                }
            }
            Ask::Write => {
                let lock = self.0.create_reader_writer_lock(key);
                Ok(DistributedLockGuard::Write(lock.acquire_write(None).await?))
            }
            Ask::Limited(limit) => {
                let semaphore = self.0.create_semaphore(key, limit);
                Ok(DistributedLockGuard::Limited(semaphore.acquire(None).await?))
            }
            Ask::Alone | Ask::Both => not_offered(Self::NAME),
        }
    }

    async fn release(guard: Self::Guard) -> Result<()> {
        match guard {
            DistributedLockGuard::Read(handle) => handle.release().await?,
            DistributedLockGuard::Write(handle) => handle.release().await?,
            DistributedLockGuard::Limited(handle) => handle.release().await?,
        }
        Ok(())
    }
}

#[derive(Clone)]
pub(crate) struct AsyncRedisLock(Locker);

impl Member for AsyncRedisLock {
    type Guard = Lock;
    const NAME: &'static str = "async-redis-lock 0.4";

    fn offers(ask: Ask) -> bool {
        matches!(ask, Ask::Alone | Ask::Both)
    }

    async fn connect(url: &str) -> Result<Self> {
        Ok(AsyncRedisLock(Locker::from_redis_url(url).await?))
    }

    async fn acquire(&self, ask: Ask, key: &str) -> Result<Self::Guard> {
        // Longer than any bench.
        let options = Options::new().timeout(Some(Duration::from_secs(3_600)));
        match ask {
            Ask::Alone => Ok(self.0.acquire_with_options(&options, key).await?),
            Ask::Both => Ok(self.0.acquire_with_options(&options, &both(key)[..]).await?),
            Ask::Read | Ask::Write | Ask::Limited(_) => not_offered(Self::NAME),
        }
    }

    async fn release(guard: Self::Guard) -> Result<()> {
        Ok(guard.release().await?)
    }
}

/// tokio's own locks, which work in one process only. They show the time of the same tasks without a server.
#[derive(Clone)]
pub(crate) struct Local {
    read_write: Arc<RwLock<()>>,
    /// The limit is that of the first request.
    limited: Arc<std::sync::OnceLock<Arc<Semaphore>>>,
    both: [Arc<Mutex<()>>; 2],
}

/// Held until it is dropped.
pub(crate) enum LocalGuard {
    Read { _guard: OwnedRwLockReadGuard<()> },
    Write { _guard: OwnedRwLockWriteGuard<()> },
    Limited { _permit: OwnedSemaphorePermit },
    Both { _guards: [OwnedMutexGuard<()>; 2] },
}

impl Member for Local {
    type Guard = LocalGuard;
    const NAME: &'static str = "tokio's locks, no server";

    fn offers(_: Ask) -> bool {
        true
    }

    async fn connect(_: &str) -> Result<Self> {
        Ok(Local { read_write: Arc::default(), limited: Arc::default(), both: Default::default() })
    }

    async fn acquire(&self, ask: Ask, _: &str) -> Result<Self::Guard> {
        Ok(match ask {
            Ask::Read => LocalGuard::Read { _guard: Arc::clone(&self.read_write).read_owned().await },
            Ask::Alone | Ask::Write => {
                LocalGuard::Write { _guard: Arc::clone(&self.read_write).write_owned().await }
            }
            Ask::Limited(limit) => {
                let semaphore = self.limited.get_or_init(|| {
                    Arc::new(Semaphore::new(usize::try_from(limit).unwrap_or(Semaphore::MAX_PERMITS)))
                });
                LocalGuard::Limited { _permit: Arc::clone(semaphore).acquire_owned().await? }
            }
            Ask::Both => {
                let [a, b] = &self.both;
                let first = Arc::clone(a).lock_owned().await;
                LocalGuard::Both { _guards: [first, Arc::clone(b).lock_owned().await] }
            }
        })
    }

    async fn release(guard: Self::Guard) -> Result<()> {
        drop(guard);
        Ok(())
    }
}
