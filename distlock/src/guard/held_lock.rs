//! One of the locks of a guard.

use std::sync::Arc;

use crate::driver::{self, LeaseHandle, NestedReport};
use crate::error::{LockError, LostReason};
use crate::lease_cell::{CellState, LeaseCell};
use crate::release::{LockRelease, lost_error};
use distlock_store::clock;
use distlock_store::engine::Time;

/// One acquired lock.
#[derive(Debug)]
pub(super) struct HeldLock {
    pub(super) lease_handle: Arc<LeaseHandle>,
    /// `Some` if the lock was acquired again inside a section that holds it. In that case, the outer section releases
    /// it.
    pub(super) nested: Option<NestedReport>,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.leave();
    }
}

impl HeldLock {
    pub(super) fn release(&self) -> LockRelease {
        let cell = &*self.lease_handle.cell;
        if self.nested.is_some() {
            self.leave();
            return LockRelease::Nested(check(cell, clock::now()));
        }
        LockRelease::Own(driver::release(&self.lease_handle))
    }

    /// Ends a nested section of a lock that was acquired again.
    pub(super) fn leave(&self) {
        if let Some(report) = &self.nested {
            report.released(self.lease_handle.alive.core(), &self.lease_handle.cell);
        }
    }
}

pub(super) fn check(cell: &LeaseCell, now: Time) -> Result<(), LockError> {
    match cell.state(now) {
        CellState::Until(_) => Ok(()),
        CellState::Lost(reason) => Err(lost_error(cell, reason)),
        CellState::Released => Err(lost_error(cell, LostReason::Released)),
    }
}

pub(super) fn is_held(cell: &LeaseCell, now: Time) -> bool {
    matches!(cell.state(now), CellState::Until(_))
}
