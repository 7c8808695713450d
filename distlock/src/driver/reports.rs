//! The events of a lock for observers: acquired, lost, released. Each event is reported once.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::Core;
use crate::engine::ReleaseStarted;
use crate::error::LostReason;
use crate::lease_cell::{CellState, How, LeaseCell, LeftToReport, Reported};
use crate::observe::{Behind, Event, Lock, ReleaseOutcome};
use crate::protocol::{LockKind, Time};
use distlock_store::clock;

/// Reports that a request has got this lock.
pub(crate) fn report_acquired(core: &Core, cell: &LeaseCell, waited: Duration) {
    if core.observers.want_nothing() || !cell.reported.acquired() {
        return;
    }
    core.observers.tell(&Event::Acquired { lock: Lock::of(cell), how: cell.how, waited });
    // It was lost meanwhile. An earlier report of the loss would have had no acquisition before it.
    if let CellState::Lost(reason) = cell.state(clock::now()) {
        core.report_lost(cell, reason);
    }
}

impl Core {
    /// Reports that a request waits without a command of its own, for example because other requests of this process
    /// are before it.
    #[expect(
        clippy::ptr_arg,
        reason = "an observer may keep the label, which costs nothing if it is borrowed"
    )]
    pub(crate) fn report_wait_behind_others(
        &self,
        key: &Arc<str>,
        label: &Cow<'static, str>,
        kind: LockKind,
    ) {
        if self.observers.want_nothing() {
            return;
        }
        if let Some(waiting) = self.engine.look(key, |machine| machine.waiting_behind_others(key)) {
            let behind = Behind::ThisProcess;
            self.observers.tell(&Event::Queued { label, key, kind, waiting, behind });
        }
    }

    /// Reports a loss. Only the first call has an effect, and only while the lock is in use.
    pub(super) fn report_lost(&self, cell: &LeaseCell, reason: LostReason) {
        if cell.reported.lost() {
            self.tell_lost(cell, reason);
        }
    }

    pub(super) fn report_renewed(&self, cell: &LeaseCell, left: Duration) {
        if let (true, CellState::Until(until)) = (cell.reported.is_in_hand(), cell.state(clock::now())) {
            let remaining = until.duration_since(clock::now());
            self.observers.tell(&Event::Renewed { lock: Lock::of(cell), left, remaining });
        }
    }

    fn tell_lost(&self, cell: &LeaseCell, reason: LostReason) {
        let held = held(cell);
        self.observers.tell(&Event::Lost { lock: Lock::of(cell), reason, held });
    }
}

fn held(cell: &LeaseCell) -> Duration {
    clock::now().duration_since(cell.held_since)
}

/// Reports the end of a hold, once.
pub(super) struct EndReport {
    left: LeftToReport,
    held: Duration,
}

impl EndReport {
    /// The hold ends now.
    pub(super) fn begin(core: &Core, cell: &LeaseCell) -> Self {
        if core.observers.want_nothing() {
            return EndReport::over();
        }
        let left = cell.reported.released();
        if left != LeftToReport::Nothing {
            core.observers.counter().hold_ends(&Lock::of(cell));
        }
        EndReport { left, held: held(cell) }
    }

    /// Another caller has already ended the hold.
    pub(super) fn over() -> Self {
        EndReport { left: LeftToReport::Nothing, held: Duration::ZERO }
    }

    /// Reports the end of the hold. Only the first call has an effect.
    pub(super) fn finish(&mut self, core: &Core, cell: &LeaseCell, outcome: ReleaseOutcome<'_>) {
        if std::mem::replace(&mut self.left, LeftToReport::Nothing) != LeftToReport::Nothing {
            let (lock, held) = (Lock::of(cell), self.held);
            core.observers.tell(&Event::Released { lock, held, outcome });
        }
    }

    /// Reports that the lock was no longer held.
    pub(super) fn finish_lost(&mut self, core: &Core, cell: &LeaseCell, reason: LostReason) {
        if self.left == LeftToReport::AnyLossAndRelease {
            core.tell_lost(cell, reason);
        }
        self.finish(core, cell, ReleaseOutcome::AfterLoss);
    }

    /// Reports a release whose reply no task awaits.
    pub(super) fn finish_unawaited(mut self, core: &Core, cell: &LeaseCell, release: ReleaseStarted) {
        match release {
            ReleaseStarted::HandedOn => self.finish(core, cell, ReleaseOutcome::HandedOn),
            ReleaseStarted::Sent => self.finish(core, cell, ReleaseOutcome::Dropped),
            ReleaseStarted::WasLost(reason) => self.finish_lost(core, cell, reason),
        }
    }
}

/// A nested section of a held lock. Its acquisition and its release are reported like those of any other.
#[derive(Debug)]
pub(crate) struct NestedReport {
    /// The label of the inner request.
    label: Cow<'static, str>,
    since: Time,
    reported: Reported,
}

impl NestedReport {
    pub(crate) fn new(label: Cow<'static, str>) -> Self {
        NestedReport { label, since: clock::now(), reported: Reported::new() }
    }

    pub(crate) fn acquired(&self, core: &Core, cell: &LeaseCell, waited: Duration) {
        if !core.observers.want_nothing() && self.reported.acquired() {
            let lock = self.lock(cell);
            core.observers.tell(&Event::Acquired { lock, how: How::Nested, waited });
        }
    }

    fn lock<'a>(&'a self, cell: &'a LeaseCell) -> Lock<'a> {
        Lock { label: &self.label, ..Lock::of(cell) }
    }

    /// Reports the release. Only the first call has an effect.
    pub(crate) fn released(&self, core: &Core, cell: &LeaseCell) {
        if !core.observers.want_nothing() && self.reported.released() != LeftToReport::Nothing {
            let held = clock::now().duration_since(self.since);
            let (lock, outcome) = (self.lock(cell), ReleaseOutcome::Nested);
            core.observers.tell(&Event::Released { lock, held, outcome });
        }
    }
}
