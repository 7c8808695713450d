//! The result of a release and its report, also of a release that no section awaits.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Core;
use super::lease_handle::InHand;
use super::reports::EndReport;
use crate::engine::{Confirmation, Failed};
use crate::lease_cell::LeaseCell;
use crate::observe::ReleaseOutcome;

/// How many releases of one manager may be in flight without a section that waits for them. They share a connection.
/// The server needs a few microseconds for each, and a few milliseconds for all of them. Fewer in unit tests, which
/// start them one by one and must reach the limit before the store counts as silent.
pub(crate) const MOST_IN_BACKGROUND: usize = if cfg!(test) { 16 } else { 1024 };

/// `fine`: the outcome of a release that was confirmed.
pub(super) fn report_end(
    report: &mut EndReport,
    (core, cell): (&Core, &LeaseCell),
    result: &Confirmation,
    fine: ReleaseOutcome<'_>,
) {
    match result {
        Ok(()) => report.finish(core, cell, fine),
        Err(Failed::Lost(reason)) => report.finish_lost(core, cell, *reason),
        Err(Failed::Unconfirmed(error)) => report.finish(core, cell, ReleaseOutcome::Unconfirmed(error)),
    }
}

/// Counts a release that its section does not await.
pub(super) struct InBackground(Arc<Core>);

impl InBackground {
    /// `None`: there are already too many.
    pub(super) fn enter(core: &Arc<Core>) -> Option<Self> {
        let more = |count: usize| (count < MOST_IN_BACKGROUND).then_some(count + 1);
        let entered = core.in_background.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        entered.is_ok().then(|| InBackground(core.clone()))
    }
}

impl Drop for InBackground {
    fn drop(&mut self) {
        self.0.in_background.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The end of a hold whose section has returned.
pub(super) struct Ending {
    pub(super) cell: Arc<LeaseCell>,
    pub(super) report: EndReport,
    /// The lock counts as in use until the reply has arrived, so a shutdown waits for it.
    pub(super) _in_hand: Option<InHand>,
    pub(super) place: InBackground,
}

impl Ending {
    pub(super) fn finish(mut self, core: &Core, confirmation: &Confirmation) {
        report_end(&mut self.report, (core, &self.cell), confirmation, ReleaseOutcome::Confirmed);
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        // This has an effect only if the I/O thread has ended before the reply arrived.
        self.report.finish(&self.place.0, &self.cell, ReleaseOutcome::Dropped);
    }
}
