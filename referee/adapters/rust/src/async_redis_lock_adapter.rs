//! async-redis-lock: polls, and renews at a third of the ttl, as recommended. The adapter polls its flag for a loss.

use std::time::Duration;

use async_redis_lock::{Error, Lock, Locker, Options};

use crate::Library;

pub(crate) struct AsyncRedisLock(Locker);

impl Library for AsyncRedisLock {
    type Lock = Lock;
    const HELLO: &'static str = "async-redis-lock 0.4.0 tokens=no waits=yes renews=yes";

    async fn connect(url: &str) -> Result<Self, String> {
        Locker::from_redis_url(url).await.map(AsyncRedisLock).map_err(|error| error.to_string())
    }

    async fn acquire(&self, key: String, ttl: Duration, wait: Duration) -> Result<Option<Lock>, String> {
        // No operation takes longer than the time between two renewals.
        let options = Options::new().ttl(ttl).extend(ttl / 3).operation_timeout(ttl / 3).timeout(Some(wait));
        match self.0.acquire_with_options(&options, key.as_str()).await {
            Ok(lock) => Ok(Some(lock)),
            Err(Error::Timeout) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn lost(lock: &mut Lock) {
        while !lock.is_lost() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn release(lock: Lock) -> Result<bool, String> {
        match lock.release().await {
            Ok(()) => Ok(true),
            Err(Error::IdNotFound) => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    }
}
