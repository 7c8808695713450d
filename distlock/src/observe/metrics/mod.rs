//! Metrics for programs that collect them with the facade `metrics`: by label, never by key.

mod names;
mod series;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use metrics::{counter, gauge, histogram};

use super::{Behind, Event, LeaderStep, Observer, ReleaseOutcome};
use crate::error::{LockError, LostReason};
use crate::lease_cell::How;
use crate::outage::{LinkChange, LinkStart, OutageIs};
use crate::protocol::Notifications;
use series::{Level, Levels, OutcomeLabel, Series};

/// At most this many labels have series of their own. (A label that is made of user ids must not fill the collector.)
const MOST_LABELS: usize = 100;
/// The label of the series that all further labels share.
const OTHER: &str = "other";

/// Counts and measures what happens.
#[derive(Debug, Default)]
pub(super) struct Metrics(RwLock<SeriesTable>);

/// The series of each label.
#[derive(Debug, Default)]
struct SeriesTable {
    /// The address of the recorder that created the handles: a program may install a recorder after its first lock.
    recorder: usize,
    labels: HashMap<Box<str>, Arc<Labelled>>,
    other: Option<Arc<Labelled>>,
}

#[derive(Debug)]
struct Labelled {
    series: Series,
    levels: Arc<Levels>,
}

impl Labelled {
    fn new(label: &str, levels: Arc<Levels>) -> Arc<Self> {
        Arc::new(Labelled { series: Series::new(label, &levels), levels })
    }

    fn shift(&self, level: Level, by: i64) {
        self.series.shift(&self.levels, level, by);
    }

    fn shift_leaders(&self, by: i64) {
        self.series.shift_leaders(&self.levels, by);
    }
}

fn recorder() -> usize {
    metrics::with_recorder(|recorder| std::ptr::from_ref(recorder).cast::<()>().addr())
}

impl SeriesTable {
    fn find(&self, recorder: usize, label: &str) -> Option<Arc<Labelled>> {
        if self.recorder != recorder {
            return None;
        }
        let found = self.labels.get(label);
        found.or_else(|| self.other.as_ref().filter(|_| self.labels.len() >= MOST_LABELS)).cloned()
    }

    fn add(&mut self, recorder: usize, label: &str) -> Arc<Labelled> {
        if self.recorder != recorder {
            self.recorder = recorder;
            names::describe();
            for (label, labelled) in &mut self.labels {
                *labelled = Labelled::new(label, labelled.levels.clone());
            }
            self.other = self.other.take().map(|other| Labelled::new(OTHER, other.levels.clone()));
        }
        if let Some(found) = self.find(recorder, label) {
            return found;
        }
        if self.labels.len() >= MOST_LABELS {
            return self.other.get_or_insert_with(|| Labelled::new(OTHER, Arc::default())).clone();
        }
        self.labels.entry(label.into()).or_insert_with(|| Labelled::new(label, Arc::default())).clone()
    }
}

impl Metrics {
    /// Allocates only if the label or the recorder is new.
    fn of(&self, label: &str) -> Arc<Labelled> {
        let recorder = recorder();
        let found = self.0.read().unwrap_or_else(PoisonError::into_inner).find(recorder, label);
        found.unwrap_or_else(|| self.0.write().unwrap_or_else(PoisonError::into_inner).add(recorder, label))
    }

    /// A request has ended, or (of several keys) a part of it.
    fn ended(&self, label: &str, outcome: OutcomeLabel, keys: usize, waited: Duration) {
        let of = self.of(label);
        of.shift(Level::Waiting, -signed(keys));
        of.series.requested(outcome, u64::try_from(keys.max(1)).unwrap_or(u64::MAX), waited);
    }

    fn leader(&self, label: &str, step: LeaderStep) {
        let of = self.of(label);
        match step {
            LeaderStep::Stands => {
                of.shift_leaders(0);
                // At 0 from now on.
                of.series.terms(0);
                of.series.terms_ended("resigned", 0);
                of.series.terms_ended("lost", 0);
            }
            LeaderStep::TermBegins { .. } => {
                of.shift_leaders(1);
                of.series.terms(1);
            }
            LeaderStep::TermEnds { lost, .. } => {
                of.shift_leaders(-1);
                of.series.terms_ended(if lost.is_some() { "lost" } else { "resigned" }, 1);
            }
        }
    }
}

impl Observer for Metrics {
    fn event(&self, event: &Event<'_>) {
        match *event {
            Event::Requested { label, keys, .. } => self.of(label).shift(Level::Waiting, signed(keys)),
            Event::Queued { label, behind: Behind::AnotherProcess, .. } => self.of(label).series.queued(),
            Event::Queued { behind: Behind::ThisProcess, .. } => {}
            Event::Acquired { lock, how, waited } => {
                self.ended(lock.label, OutcomeLabel::Acquired, 1, waited);
                let of = self.of(lock.label);
                of.series.acquired(word_of_how(how));
                of.shift(Level::Held, 1);
            }
            Event::NotAcquired { label, error, keys, waited } => {
                self.ended(label, outcome_of(error), keys, waited);
            }
            Event::Abandoned { label, keys, waited } => {
                self.ended(label, OutcomeLabel::Abandoned, keys, waited);
            }
            Event::Renewed { lock, left, remaining } => {
                let of = self.of(lock.label);
                of.series.renewed();
                of.series.left_at_renewal(left);
                if left * 2 < remaining {
                    of.series.renewed_late();
                }
            }
            Event::Released { lock, held, outcome } => {
                let of = self.of(lock.label);
                of.shift(Level::Held, -1);
                of.series.held_for(held);
                of.series.released(word_of_release(outcome));
            }
            Event::Lost { lock, reason, .. } => {
                if let Some(word) = word_of_reason(reason) {
                    self.of(lock.label).series.lost(word);
                }
            }
            Event::Leader { label, step, .. } => self.leader(label, step),
            // The histograms show them.
            Event::LongWait { .. } | Event::LongHold { .. } | Event::NotTaken { .. } => {}
            Event::LiteralPlaceholder { .. } => {}
            Event::Deadlock { .. } => counter!(names::DEADLOCKS).increment(1),
            Event::Link { store, change } => link(store, change),
            Event::Failed { .. } => counter!(names::FAILED).increment(1),
            Event::Notice { .. } => {}
        }
    }
}

/// For rare events: no handles are kept.
fn link(store: &str, change: LinkChange<'_>) {
    let set = |name: &'static str, on: bool| {
        gauge!(name, "store" => store.to_owned()).set(if on { 1.0 } else { 0.0 });
    };
    let outages = || counter!(names::OUTAGES, "store" => store.to_owned());
    match change {
        LinkChange::Up { start, pushes, .. } => {
            set(names::LINK_UP, true);
            drop((outages(), counter!(names::FAILED), counter!(names::DEADLOCKS))); // at 0 from now on
            set(names::PUSHES_ON, pushes == Notifications::On);
            if let LinkStart::AtLast(outage) | LinkStart::Again(outage) = start {
                histogram!(names::OUTAGE, "store" => store.to_owned()).record(outage.as_secs_f64());
            }
        }
        LinkChange::Down { outage, .. } => {
            set(names::LINK_UP, false);
            set(names::PUSHES_ON, false);
            if outage == OutageIs::New {
                outages().increment(1);
            }
        }
        LinkChange::Notifications(pushes) => set(names::PUSHES_ON, pushes == Notifications::On),
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn outcome_of(error: &LockError) -> OutcomeLabel {
    match error {
        LockError::Busy { .. } => OutcomeLabel::Busy,
        LockError::Unavailable { .. } | LockError::Lost { .. } | LockError::Fence(_) => {
            OutcomeLabel::Unavailable
        }
        LockError::WrongKind { .. } => OutcomeLabel::WrongKind,
        LockError::WouldDeadlock { .. } => OutcomeLabel::WouldDeadlock,
        LockError::InvalidKey { .. }
        | LockError::InvalidOptions { .. }
        | LockError::InvalidTicket { .. }
        | LockError::NotInitialized => OutcomeLabel::Invalid,
        LockError::Closed => OutcomeLabel::Closed,
    }
}

/// The place of its word in [`series::HOW`].
fn word_of_how(how: How) -> usize {
    match how {
        How::Free => 0,
        How::Asked => 1,
        How::Granted => 2,
        How::HandedOn => 3,
        How::Joined => 4,
        How::Nested => 5,
    }
}

/// In [`series::REASONS`].
fn word_of_reason(reason: LostReason) -> Option<usize> {
    match reason {
        LostReason::Expired => Some(0),
        LostReason::Taken => Some(1),
        LostReason::MaxHold => Some(2),
        LostReason::Shutdown => Some(3),
        // The error of a handle that has outlived its section. No event reports it.
        LostReason::Released => None,
    }
}

/// In [`series::RELEASES`].
fn word_of_release(outcome: ReleaseOutcome<'_>) -> usize {
    match outcome {
        ReleaseOutcome::Confirmed => 0,
        ReleaseOutcome::HandedOn => 1,
        ReleaseOutcome::Unconfirmed(_) => 2,
        ReleaseOutcome::AfterLoss => 3,
        ReleaseOutcome::Dropped => 4,
        ReleaseOutcome::Nested => 5,
    }
}
