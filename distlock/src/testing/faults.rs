//! Failures that a test orders.

use crate::fault::Fault;
use crate::manager::LockManager;

/// The next request of `manager` for `key` ends with `fault`, whatever the state of the store. Faults for the same key
/// happen in the order of the calls, one for each request. A request for several keys takes one fault for each of them,
/// up to the first error. A request that fails in this way sends nothing to the store. Works on every store.
///
/// ```
/// use distlock::LockManager;
/// use distlock::testing::{Fault, fail_next};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let manager = LockManager::in_memory();
/// fail_next(&manager, "order:42", Fault::Unavailable);
/// let section = manager.lock("order:42").run(async |_| unreachable!("nothing runs unlocked"));
/// assert!(section.await.unwrap_err().is_unavailable());
/// assert!(manager.lock("order:42").run(async |_| {}).await.is_ok());
/// # }
/// ```
pub fn fail_next(manager: &LockManager, key: impl AsRef<str>, fault: Fault) {
    manager.core().faults.add(key.as_ref(), fault);
}

/// How many faults of [`fail_next`] have not happened yet. It is zero at the end of a test if all of them have
/// happened.
///
/// ```
/// use distlock::testing::{Fault, fail_next, planned};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let manager = distlock::LockManager::in_memory();
/// fail_next(&manager, "order:42", Fault::Busy);
/// assert_eq!(planned(&manager), 1);
/// manager.lock("order:42").acquire().await.unwrap_err();
/// assert_eq!(planned(&manager), 0);
/// # }
/// ```
#[must_use]
pub fn planned(manager: &LockManager) -> usize {
    manager.core().faults.left()
}

/// `manager` loses every lease of `key` now, as if no renewal had succeeded in time
/// ([`LostReason::Expired`](crate::LostReason::Expired)). Async sections stop at their next await, and guards are no
/// longer held. As after a real loss, the store keeps the key until the section or the guard has ended. Returns whether
/// there was a lease. Works on every store. (To simulate a forced release, use
/// [`force_release`](LockManager::force_release).)
///
/// ```
/// use distlock::testing::{eventually, lose};
/// use distlock::LockManager;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let manager = LockManager::in_memory();
/// let export = manager.lock("export").run(async |_| std::future::pending::<()>().await);
/// let loss = eventually("the export holds its lock", async || lose(&manager, "export"));
/// let (export, _) = tokio::join!(export, loss);
/// assert!(export.unwrap_err().is_lost());
/// # }
/// ```
pub fn lose(manager: &LockManager, key: impl AsRef<str>) -> bool {
    let (core, key) = (manager.core(), key.as_ref().into());
    let held = core.engine.look(&key, |machine| machine.has_leases(&key));
    core.lose_key(&key);
    held
}
