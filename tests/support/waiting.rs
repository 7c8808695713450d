//! Knowing that somebody waits, from outside.

use distlock::LockManager;

use crate::eventually;

/// Waits until this many requests or processes stand in line for `key`, which must be held: processes on the server,
/// requests of this manager's own.
///
/// # Panics
/// When they do not come, or nobody holds the key.
pub async fn until_waiting(manager: &LockManager, key: &str, count: u64) {
    eventually("they wait", async || waiting(manager, key).await >= count).await;
}

/// Waits until nobody stands in line any more, see [`until_waiting`].
///
/// # Panics
/// When somebody stays, or nobody holds the key.
pub async fn until_nobody_waits(manager: &LockManager, key: &str) {
    eventually("nobody waits", async || waiting(manager, key).await == 0).await;
}

async fn waiting(manager: &LockManager, key: &str) -> u64 {
    let info = manager.inspect(key).await.unwrap().expect("somebody holds the lock");
    info.waiters.max(info.waiters_here as u64)
}
