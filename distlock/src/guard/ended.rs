//! Waits for the end of a hold.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use super::{Guard, forked};
use crate::error::{LockError, LostReason};
use crate::lease_cell::{CellState, LeaseCell};
use crate::listeners::Listening;
use crate::process::Process;
use crate::release::lost_error;
use distlock_store::clock;

/// Waits until all locks of a guard are released, or one of them is lost.
pub(crate) struct GuardEnd {
    cells: Vec<Arc<LeaseCell>>,
    made_in: Process,
}

impl GuardEnd {
    pub(crate) fn of(guard: &Guard) -> Self {
        let cells = guard.locks().map(|lock| lock.lease_handle.cell.clone()).collect();
        GuardEnd { cells, made_in: guard.first.lease_handle.made_in() }
    }

    /// `Some`: the first loss. `None`: all were released.
    pub(crate) async fn wait(self) -> Option<LockError> {
        loop {
            if self.made_in.is_another() {
                return self.cells.first().map(|cell| forked(cell));
            }
            let mut listeners: Vec<Listening> = self.cells.iter().map(|cell| cell.listen()).collect();
            let now = clock::now();
            let mut all_released = true;
            for cell in &self.cells {
                match cell.state(now) {
                    CellState::Lost(reason) => return Some(lost_error(cell, reason)),
                    CellState::Until(_) => all_released = false,
                    CellState::Released if cell.is_abandoned() => {
                        return Some(lost_error(cell, LostReason::Released));
                    }
                    CellState::Released => {}
                }
            }
            if all_released {
                return None;
            }
            poll_fn(|cx| {
                if self.made_in.is_another() {
                    return Poll::Ready(());
                }
                let any = listeners.iter_mut().any(|listener| listener.poll(cx).is_ready());
                if any { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            if self.made_in.is_another() {
                // Their mutexes may be locked by a thread that does not exist here.
                std::mem::forget(listeners);
            }
        }
    }
}
