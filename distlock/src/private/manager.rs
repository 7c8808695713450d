//! The manager of an annotated function.

use crate::{LockError, LockManager};

/// The manager of a scope or of the process.
pub fn current() -> Result<LockManager, LockError> {
    LockManager::current()
}

/// `manager = expr`, as a method call: a field, a reference, an `Arc` and a clone all work, and nothing stays
/// borrowed.
pub trait AsLockManager {
    /// The manager to use.
    fn as_lock_manager(&self) -> LockManager;
}

/// A separate step, so that the compiler shows the message below instead of "no method named ..".
impl<M: Manager + ?Sized> AsLockManager for M {
    fn as_lock_manager(&self) -> LockManager {
        self.to_lock_manager()
    }
}

/// A manager of either kind.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a lock manager",
    label = "no `distlock::LockManager`, and nothing that dereferences to one",
    note = "name a field, an argument or a static that holds the manager, as in `manager = self.locks`"
)]
pub trait Manager {
    /// The manager to use.
    fn to_lock_manager(&self) -> LockManager;
}

impl Manager for crate::blocking::LockManager {
    fn to_lock_manager(&self) -> LockManager {
        self.clone().into()
    }
}

impl Manager for LockManager {
    fn to_lock_manager(&self) -> LockManager {
        self.clone()
    }
}
