//! Failures on order.

use crate::fault::Fault;
use crate::manager::LockManager;

/// The next request of `manager` for `key` ends as `fault` says, whatever the store has. Faults for the same key happen
/// in the order in which they were asked for, one for each request; a request for several keys takes one for each of
/// them, up to the first that is an error. A request that is to fail asks the store for nothing. Works on every store.
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

/// How many faults of [`fail_next`] have not happened yet: none, at the end of a test that has met them all.
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

/// `manager` loses every lease that it has of `key`, now, as if no renewal had got through in time
/// ([`LostReason::Expired`](crate::LostReason::Expired)): async sections stop at their next await, guards are not held
/// any more. As after a real loss, the store keeps the key until the section or the guard has ended. Returns whether
/// there was a lease. Of every kind of store. (What happens when somebody takes the lock away,
/// [`force_release`](LockManager::force_release) shows.)
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
