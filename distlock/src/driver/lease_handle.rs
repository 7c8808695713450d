//! The handle of a lease that is in use.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::reports::EndReport;
use super::shards::Shards;
use super::{Alive, Core, Lasting, Requester, Watched};
use crate::engine::ReleaseStarted;
use crate::lease_cell::LeaseCell;
use crate::process::Process;
use crate::protocol::mutated;

/// The handle of a lease that is in use. Dropping it releases the lease, in the background.
pub(crate) struct LeaseHandle {
    pub(crate) alive: Arc<Alive>,
    pub(crate) cell: Arc<LeaseCell>,
    /// Set if a warning of a long hold was requested.
    long: OnceLock<Watched>,
    ended: AtomicBool,
}

/// Counts a lease handle as in use until its release was sent or confirmed.
#[derive(Debug)]
pub(super) struct InHand {
    core: Arc<Core>,
    is_releasing: bool,
}

impl InHand {
    /// The hold has ended, so no body uses the lock. It counts until the reply to the release has come.
    pub(super) fn until_released(mut self) -> Self {
        self.is_releasing = true;
        self.core.releasing.fetch_add(1, Ordering::Relaxed);
        self
    }
}

impl LeaseHandle {
    pub(super) fn new(alive: Arc<Alive>, cell: Arc<LeaseCell>) -> Self {
        alive.core().lease_handles.fetch_add(1, Ordering::Relaxed);
        LeaseHandle { alive, cell, long: OnceLock::new(), ended: AtomicBool::new(false) }
    }

    /// Warns when the hold lasts for longer than `limit`.
    pub(crate) fn warn_of_long_hold(&self, limit: Duration) {
        self.long.get_or_init(|| self.alive.core().watch_long(Lasting::Hold(self.cell.clone()), limit));
    }

    /// `Some` for the first caller only, which then ends the hold. Always `None` in a forked process: the
    /// hold belongs to the parent. (A forked process sets its own copy of the flag.)
    pub(super) fn end(&self) -> Option<InHand> {
        let core = self.alive.core();
        if self.ended.swap(true, Ordering::AcqRel) || core.is_forked() {
            return None;
        }
        Some(InHand { core: core.clone(), is_releasing: false })
    }

    /// Ends the hold in the background, even if the lease handle has other users. Does nothing if the hold has ended.
    pub(crate) fn let_go(&self) {
        let Some(_in_hand) = self.end() else { return };
        self.release_in_background();
    }

    fn release_in_background(&self) {
        let core = self.alive.core();
        let report = EndReport::begin(core, &self.cell);
        let mut released = ReleaseStarted::Sent;
        let release = |engine: &Shards<Requester>, now| {
            let (release, effects) = engine.on_key(now, &self.cell.key, |step| step.release(&self.cell));
            released = release;
            effects
        };
        // This may be called while a panic unwinds. If the engine panics, the lease ends at its deadline.
        drop(core.event(release));
        report.finish_unawaited(core, &self.cell, released);
    }

    /// The section that holds the lock was dropped or has panicked: ends the hold, and reports it to the other users of
    /// the lease handle. Does nothing if the hold has ended.
    pub(crate) fn abandon(&self) {
        let Some(_in_hand) = self.end() else { return };
        self.cell.abandon();
        self.release_in_background();
        self.cell.notify();
    }

    pub(crate) fn made_in(&self) -> Process {
        self.alive.core().made_in.clone()
    }

    /// Whether the hold was copied into a forked process, which does not hold the lock.
    pub(crate) fn is_forked(&self) -> bool {
        self.alive.core().is_forked()
    }
}

impl fmt::Debug for LeaseHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LeaseHandle").field(&self.cell).finish()
    }
}

impl Drop for LeaseHandle {
    fn drop(&mut self) {
        if dropped_handles_release() {
            self.let_go();
        }
    }
}

/// A rule that tests can break: a lock whose last handle was dropped is released, even if its grant was never noticed.
fn dropped_handles_release() -> bool {
    !mutated!(DroppedHandleKept)
}

impl Drop for InHand {
    fn drop(&mut self) {
        if self.is_releasing {
            self.core.releasing.fetch_sub(1, Ordering::Relaxed);
        }
        self.core.lease_handles.fetch_sub(1, Ordering::SeqCst);
        self.core.may_be_idle();
    }
}
