//! `RLock::acquire_mutex_with_options` of rlock: polls, renews at half of the ttl, and reports a loss.

use std::time::Duration;

use rlock::{
    AcquireError, AcquireOptions, LeaseState, RenewalMode,
    async_lock::{RLock, RLockGuard},
};

use crate::Library;

pub(crate) struct Rlock(RLock);

impl Library for Rlock {
    type Lock = RLockGuard;
    const HELLO: &'static str = "rlock 0.2.0 tokens=no waits=yes renews=yes";

    async fn connect(url: &str) -> Result<Self, String> {
        RLock::new(url).await.map(Rlock).map_err(|error| error.to_string())
    }

    async fn acquire(
        &self,
        key: String,
        ttl: Duration,
        wait: Duration,
    ) -> Result<Option<RLockGuard>, String> {
        let options = AcquireOptions::builder().ttl(ttl).lock_timeout(Some(wait));
        let options = options.renewal_mode(RenewalMode::Auto).build().map_err(|error| error.to_string())?;
        match self.0.acquire_mutex_with_options(key, options).await {
            Ok(guard) => Ok(Some(guard)),
            Err(AcquireError::LockTimeout) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn lost(lock: &mut RLockGuard) {
        lock.wait_until_inactive().await;
    }

    async fn release(mut lock: RLockGuard) -> Result<bool, String> {
        let held = lock.lease_state() == LeaseState::Active;
        lock.release().await.map_err(|error| error.to_string())?;
        Ok(held)
    }
}
