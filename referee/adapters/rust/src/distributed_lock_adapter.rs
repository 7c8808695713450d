//! distributed-lock with one server: renews at a third of the ttl, the default, and reports a loss. It tries once,
//! because its `acquire` with a wait limit does not wait.

use std::time::Duration;

use distributed_lock_core::traits::{DistributedLock as _, LockHandle as _, LockProvider as _};
use distributed_lock_redis::{RedisLockHandle, RedisLockProvider};
use fred::{
    prelude::{ClientLike as _, RedisClient},
    types::{ReconnectPolicy, RedisConfig},
};

use crate::Library;

pub(crate) struct DistributedLock(RedisClient);

impl Library for DistributedLock {
    type Lock = RedisLockHandle;
    const HELLO: &'static str = "distributed-lock 0.2.0 tokens=no waits=no renews=yes";

    async fn connect(url: &str) -> Result<Self, String> {
        let config = RedisConfig::from_url(url).map_err(|error| error.to_string())?;
        // The client that the library creates from a URL does not reconnect after its link was cut.
        let policy = ReconnectPolicy::new_constant(0, 50);
        let client = RedisClient::new(config, None, None, Some(policy));
        client.connect();
        client.wait_for_connect().await.map_err(|error| error.to_string())?;
        Ok(DistributedLock(client))
    }

    async fn acquire(
        &self,
        key: String,
        ttl: Duration,
        _: Duration,
    ) -> Result<Option<RedisLockHandle>, String> {
        let provider = RedisLockProvider::builder().client(self.0.clone()).expiry(ttl);
        let provider = provider.extension_cadence(ttl / 3).min_validity(ttl * 9 / 10).build().await;
        let lock = provider.map_err(|error| error.to_string())?.create_lock(&key);
        lock.try_acquire().await.map_err(|error| error.to_string())
    }

    async fn lost(lock: &mut RedisLockHandle) {
        if lock.lost_token().clone().wait_for(|lost| *lost).await.is_err() {
            // The renewal has ended without a report.
            std::future::pending::<()>().await;
        }
    }

    async fn release(lock: RedisLockHandle) -> Result<bool, String> {
        let held = !*lock.lost_token().borrow();
        lock.release().await.map_err(|error| error.to_string())?;
        Ok(held)
    }
}
