//! Finds out whether a process waits, or its lease is renewed.

use distlock::{Guard, LockManager};

use crate::eventually;

/// Waits until this many processes on the server, or requests of this manager, wait for `key`, which must be held.
///
/// # Panics
/// If they do not come, or no process holds the key.
pub async fn until_waiting(manager: &LockManager, key: &str, count: u64) {
    eventually("they wait", async || waiting(manager, key).await >= count).await;
}

/// Waits until the lease lasts longer than before.
///
/// # Panics
/// If it does not, or the lock is lost.
pub async fn until_renewed(guard: &Guard) {
    let mut remaining = guard.remaining();
    eventually("it is renewed", async || {
        guard.check().unwrap();
        let before = std::mem::replace(&mut remaining, guard.remaining());
        remaining > before
    })
    .await;
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
