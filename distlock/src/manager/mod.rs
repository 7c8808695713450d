//! The manager, which creates requests for locks.

// Comes first, so that the documentation of `LockManager` begins with its creation and with `lock`.
mod entrance;

mod builder;
mod built;
mod connecting;
mod current;
mod deadlocks;
mod for_tests;
mod health;
mod inspecting;
mod listing;
mod lock_info;
mod memory;
mod operations;
mod schemes;
mod store_slot;

use std::fmt;
use std::sync::Arc;

use crate::backend::{Backend, Tuning};
use crate::driver::Core;
use crate::manager_handle::{Defaults, ManagerHandle};
use crate::observe::Observers;
pub use builder::LockManagerBuilder;
pub use current::{init, with_manager};
pub use health::Health;
pub use listing::Locks;
pub(crate) use lock_info::holder;
pub use lock_info::{LockClient, LockEntry, LockHolder, LockInfo, LockWaiter};
pub use operations::{ForcedRelease, ShutdownReport};
pub use schemes::register;

/// Creates requests for locks. It has the connections to the store, one I/O thread, and the state of every lock that
/// this process holds or waits for.
///
/// A program has one manager, or one for each deployment that it uses. Clones share everything. When the last clone,
/// request and guard is dropped, the I/O thread finishes pending work (for at most a second), closes the store (for at
/// most another second), and ends.
///
/// # At the end of the process
/// A guard that is dropped is released in the background, and a process that ends does not finish its background work.
/// So dropping the last handle (a clone, a request or a guard) waits up to 50 ms for pending releases. A manager that
/// is still alive when `main` returns (in a `static`, like the manager of [`init`](crate::init), or in a task) cannot
/// wait. In that case, and before `std::process::exit`, call [`shutdown`](LockManager::shutdown), or
/// [`release`](crate::Guard::release) your guards and await it. A lock that was not released expires after its ttl.
///
/// # After a fork
/// A forked process has a copy of the manager without its I/O thread. Every operation there fails with
/// [`LockError::Unavailable`](crate::LockError::Unavailable) at once, and a guard that is dropped there does not
/// release the parent's lock. Connect again in the child. A server that forks its workers should create its managers in
/// the workers.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// use distlock::LockManager;
///
/// let manager = LockManager::in_memory(); // or LockManager::connect("redis://127.0.0.1/").await?
/// let guard = manager.lock("order:42").acquire().await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias("lock provider", "RedissonClient", "Redsync", "locker", "lock client"))]
#[derive(Clone)]
pub struct LockManager(ManagerHandle);

impl From<ManagerHandle> for LockManager {
    fn from(handle: ManagerHandle) -> Self {
        LockManager(handle)
    }
}

impl LockManager {
    fn start(client: Arc<str>, backend: Arc<dyn Backend>, tuning: &Tuning, defaults: Defaults) -> Self {
        let alive = Core::start(client, backend, tuning, connecting::seed(), Observers::standard());
        ManagerHandle::new(alive, defaults).into()
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        self.0.core()
    }

    pub(crate) fn handle(&self) -> ManagerHandle {
        self.0.clone()
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
