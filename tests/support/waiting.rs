//! Finds out from outside whether a process waits.

use distlock::LockManager;

use crate::eventually;

/// Waits until this many processes on the server, or requests of this manager, wait for `key`, which must be held.
///
/// # Panics
/// If they do not come, or no process holds the key.
pub async fn until_waiting(manager: &LockManager, key: &str, count: u64) {
    eventually("they wait", async || waiting(manager, key).await >= count).await;
}

/// Waits until no request waits. See [`until_waiting`].
///
/// # Panics
/// If a request stays, or no process holds the key.
pub async fn until_nobody_waits(manager: &LockManager, key: &str) {
    eventually("nobody waits", async || waiting(manager, key).await == 0).await;
}

async fn waiting(manager: &LockManager, key: &str) -> u64 {
    let info = manager.inspect(key).await.unwrap().expect("somebody holds the lock");
    info.waiters.max(info.waiters_here as u64)
}
