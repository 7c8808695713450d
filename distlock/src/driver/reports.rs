//! What observers are told of a lock in somebody's hand: that it was acquired, lost, released; of each once.

use std::borrow::Cow;
use std::time::Duration;

use super::Core;
use crate::clock;
use crate::engine::Release;
use crate::error::LostReason;
use crate::lease_cell::{CellState, How, LeaseCell, LeftToReport, Reported};
use crate::observe::{Event, Lock, ReleaseOutcome};
use crate::protocol::Time;

/// A request has ended with this lock.
pub(crate) fn report_acquired(core: &Core, cell: &LeaseCell, waited: Duration) {
    if core.observers.is_empty() || !cell.reported.acquired() {
        return;
    }
    core.observers.tell(&Event::Acquired { lock: Lock::of(cell), how: cell.how, waited });
    // It was lost in between, when nobody would have understood that.
    if let CellState::Lost(reason) = cell.state(clock::now()) {
        core.report_lost(cell, reason);
    }
}

impl Core {
    /// Of effect once, while the lock is in somebody's hand.
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

/// The end of a hold, which is reported once: as `Dropped`, if nobody says how it went.
pub(super) struct EndReport<'a> {
    core: &'a Core,
    cell: &'a LeaseCell,
    left: LeftToReport,
    held: Duration,
}

impl<'a> EndReport<'a> {
    /// The hold ends now.
    pub(super) fn begin(core: &'a Core, cell: &'a LeaseCell) -> Self {
        if core.observers.is_empty() {
            return EndReport::over(core, cell);
        }
        EndReport { core, cell, left: cell.reported.released(), held: held(cell) }
    }

    /// The hold has ended before, by somebody else.
    pub(super) fn over(core: &'a Core, cell: &'a LeaseCell) -> Self {
        EndReport { core, cell, left: LeftToReport::Nothing, held: Duration::ZERO }
    }

    pub(super) fn finish(mut self, outcome: ReleaseOutcome<'_>) {
        self.tell(outcome);
    }

    /// The lock was not held any more.
    pub(super) fn finish_lost(mut self, reason: LostReason) {
        if self.left == LeftToReport::AnyLossAndRelease {
            self.core.tell_lost(self.cell, reason);
        }
        self.tell(ReleaseOutcome::AfterLoss);
    }

    /// Nobody waits for the store's answer.
    pub(super) fn finish_unawaited(self, release: Release) {
        match release {
            Release::HandedOn => self.finish(ReleaseOutcome::HandedOn),
            Release::Sent => self.finish(ReleaseOutcome::Dropped),
            Release::WasLost(reason) => self.finish_lost(reason),
        }
    }

    fn tell(&mut self, outcome: ReleaseOutcome<'_>) {
        if std::mem::replace(&mut self.left, LeftToReport::Nothing) != LeftToReport::Nothing {
            let (lock, held) = (Lock::of(self.cell), self.held);
            self.core.observers.tell(&Event::Released { lock, held, outcome });
        }
    }
}

impl Drop for EndReport<'_> {
    fn drop(&mut self) {
        self.tell(ReleaseOutcome::Dropped);
    }
}

/// A lock that is entered again: its acquisition and its release are reported like those of any other.
#[derive(Debug)]
pub(crate) struct NestedReport {
    /// Of the inner request.
    label: Cow<'static, str>,
    since: Time,
    reported: Reported,
}

impl NestedReport {
    pub(crate) fn new(label: Cow<'static, str>) -> Self {
        NestedReport { label, since: clock::now(), reported: Reported::new() }
    }

    pub(crate) fn acquired(&self, core: &Core, cell: &LeaseCell, waited: Duration) {
        if !core.observers.is_empty() && self.reported.acquired() {
            let lock = self.lock(cell);
            core.observers.tell(&Event::Acquired { lock, how: How::Nested, waited });
        }
    }

    fn lock<'a>(&'a self, cell: &'a LeaseCell) -> Lock<'a> {
        Lock { label: &self.label, ..Lock::of(cell) }
    }

    /// Of effect once.
    pub(crate) fn released(&self, core: &Core, cell: &LeaseCell) {
        if !core.observers.is_empty() && self.reported.released() != LeftToReport::Nothing {
            let held = clock::now().duration_since(self.since);
            let (lock, outcome) = (self.lock(cell), ReleaseOutcome::Nested);
            core.observers.tell(&Event::Released { lock, held, outcome });
        }
    }
}
