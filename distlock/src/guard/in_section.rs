//! What sections, requests and scopes do with a guard.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::held_lock::{HeldLock, check, is_held};
use super::{Guard, Rest};
use crate::backend::LockKind;
use crate::driver::{self, NestedReport};
use crate::engine::Want;
use crate::error::LockError;
use crate::lease_cell::LeaseCell;
use distlock_store::clock;

impl Guard {
    /// Acquires `key` again inside the section that holds it by this guard.
    pub(crate) fn nested(&self, key: &str, label: Cow<'static, str>) -> Option<Self> {
        let lock = self.locks().find(|lock| &*lock.lease_handle.cell.key == key)?;
        Some(Guard {
            rest: Rest::default(),
            first: HeldLock {
                lease_handle: lock.lease_handle.clone(),
                nested: Some(NestedReport::new(label)),
            },
        })
    }

    /// The exclusive locks of that manager that are held by this guard now.
    pub(crate) fn exclusive_cells(&self, manager: u64) -> impl Iterator<Item = Arc<LeaseCell>> {
        let now = clock::now();
        let handles = self.locks().map(|lock| &lock.lease_handle);
        let cells =
            handles.filter(move |handle| handle.alive.core().id == manager).map(|handle| &handle.cell);
        cells.filter(move |cell| cell.kind == LockKind::Exclusive && is_held(cell, now)).cloned()
    }

    /// The kind of lock that `key` is held as.
    pub(crate) fn kind_of(&self, key: &str) -> Option<LockKind> {
        self.cells().find(|cell| &*cell.key == key).map(|cell| cell.kind)
    }

    /// Starts the time limits of `want`, because all locks are acquired.
    pub(crate) fn begin(&self, want: &Want) {
        for lock in self.locks().filter(|lock| lock.nested.is_none()) {
            driver::begin_hold(&lock.lease_handle, want);
        }
    }

    /// `Ok` if no outer section has lost one of the locks that were acquired again.
    pub(crate) fn check_nested(&self) -> Result<(), LockError> {
        let now = clock::now();
        self.locks()
            .filter(|lock| lock.nested.is_some())
            .try_for_each(|lock| check(&lock.lease_handle.cell, now))
    }

    /// Adds the locks of another guard, which were acquired after these.
    pub(crate) fn join(&mut self, mut other: Guard) {
        let behind = std::mem::take(&mut other.rest.0);
        self.rest.0.push(other.first);
        self.rest.0.extend(behind);
    }

    /// The section was dropped or has panicked. Releases the locks that the section itself acquired, in the background,
    /// even if other handles to them exist.
    pub(crate) fn abandon(&self) {
        for lock in self.locks().rev() {
            match lock.nested {
                Some(_) => lock.leave(),
                None => lock.lease_handle.abandon(),
            }
        }
    }

    /// Whether `key` of that manager is held by this guard now.
    pub(crate) fn covers(&self, manager: Option<u64>, key: &str) -> bool {
        let is_it = |lock: &HeldLock| {
            manager.is_none_or(|id| lock.lease_handle.alive.core().id == id)
                && &*lock.lease_handle.cell.key == key
        };
        let now = clock::now();
        self.locks().any(|lock| {
            is_it(lock) && !lock.lease_handle.is_forked() && is_held(&lock.lease_handle.cell, now)
        })
    }

    /// Ends a section. The result of the release is reported, and does not replace the result of the body.
    pub(crate) async fn release_and_report(&self) {
        drop(self.begin_release().await);
    }

    /// Ends all locks as lost, as if no renewal had succeeded.
    pub(crate) fn lose(&self) {
        for lock in self.locks() {
            lock.lease_handle.alive.core().lose_key(&lock.lease_handle.cell.key);
        }
    }

    /// Warns when one of the locks is held for longer than `limit`.
    pub(crate) fn warn_of_long_hold(&self, limit: Duration) {
        for lock in self.locks().filter(|lock| lock.nested.is_none()) {
            lock.lease_handle.warn_of_long_hold(limit);
        }
    }

    /// Reports each of the locks, in the order of acquisition.
    pub(crate) fn report_acquired(&self, waited: Duration) {
        for HeldLock { lease_handle, nested } in self.locks() {
            let (core, cell) = (lease_handle.alive.core(), &lease_handle.cell);
            match nested {
                Some(report) => report.acquired(core, cell, waited),
                None => driver::report_acquired(core, cell, waited),
            }
        }
    }
}
