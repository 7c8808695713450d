//! The failures that a test has ordered for the next requests of a manager.

use std::collections::{HashMap, VecDeque};
use std::sync::MutexGuard;

use distlock_store::kit::sync::Locked;

/// How the next request for a key ends. See [`fail_next`](crate::testing::fail_next).
///
/// ```
/// use distlock::testing::{Fault, fail_next};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let manager = distlock::LockManager::in_memory();
/// fail_next(&manager, "order:42", Fault::Lost);
/// assert!(manager.lock("order:42").run(async |_held| {}).await.unwrap_err().is_lost());
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The request fails with [`LockError::Busy`](crate::LockError::Busy) at once.
    Busy,
    /// The request fails with [`LockError::Unavailable`](crate::LockError::Unavailable) at once.
    Unavailable,
    /// The request acquires the lock and loses it at the same moment
    /// ([`LostReason::Expired`](crate::LostReason::Expired)). A guard is not held. An async section returns
    /// [`LockError::Lost`](crate::LockError::Lost) before its body begins.
    Lost,
}

/// By key, in the order in which they happen.
#[derive(Debug, Default)]
pub(crate) struct Faults(Locked<HashMap<String, VecDeque<Fault>>>);

impl Faults {
    fn all(&self) -> MutexGuard<'_, HashMap<String, VecDeque<Fault>>> {
        self.0.lock()
    }

    pub(crate) fn add(&self, key: &str, fault: Fault) {
        self.all().entry(key.to_owned()).or_default().push_back(fault);
    }

    /// The next one for `key`, which happens now.
    pub(crate) fn take(&self, key: &str) -> Option<Fault> {
        let mut all = self.all();
        let next = all.get_mut(key)?.pop_front();
        if all.get(key).is_some_and(VecDeque::is_empty) {
            all.remove(key);
        }
        next
    }

    /// How many have not happened yet.
    pub(crate) fn left(&self) -> usize {
        self.all().values().map(VecDeque::len).sum()
    }
}
