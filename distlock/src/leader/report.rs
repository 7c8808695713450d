//! The events of a candidate: its campaign, and the begin and end of its terms.

use std::borrow::Cow;
use std::sync::Arc;

use super::Lead;
use crate::driver::Core;
use crate::error::{LockError, LostReason};
use crate::observe::{Event, LeaderStep};
use distlock_store::clock;
use distlock_store::engine::Time;

pub(super) fn stands(core: &Core, label: Cow<'static, str>, key: &Arc<str>) {
    core.observers.tell(&Event::Leader { label: &label, key, step: LeaderStep::Stands });
}

/// A term that was reported. When it is dropped, its end is.
#[derive(Debug)]
pub(super) struct TermReport {
    lead: Lead,
    core: Arc<Core>,
    label: Cow<'static, str>,
    began: Time,
}

impl TermReport {
    /// `None`: there is no observer.
    pub(super) fn begin(core: &Arc<Core>, lead: &Lead, label: Cow<'static, str>) -> Option<Self> {
        if core.observers.want_nothing() {
            return None;
        }
        let report = TermReport { lead: lead.clone(), core: core.clone(), label, began: clock::now() };
        report.tell(LeaderStep::TermBegins { term: lead.term().get() });
        Some(report)
    }

    fn tell(&self, step: LeaderStep) {
        let (label, key) = (&self.label, &self.lead.cell().key);
        self.core.observers.tell(&Event::Leader { label, key, step });
    }
}

impl Drop for TermReport {
    fn drop(&mut self) {
        let lost = match self.lead.check() {
            Err(LockError::Lost { reason, .. }) if reason != LostReason::Released => Some(reason),
            _ => None,
        };
        let led = clock::now().duration_since(self.began);
        self.tell(LeaderStep::TermEnds { term: self.lead.term().get(), led, lost });
    }
}
