//! An observer that records events.

use std::sync::Arc;

use super::{Behind, Event, LeaderStep, Lock, Observer, ReleaseOutcome};
use crate::lease_cell::How;
use distlock_store::kit::sync::Locked;

/// An event without its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Requested { keys: usize },
    Queued { key: String, waiting: usize },
    Acquired { key: String, how: How },
    NotAcquired,
    Abandoned,
    Renewed { key: String },
    Released { key: String, how: HoldEnd },
    Lost { key: String },
    Leader(LeaderSeen),
    Noticed { text: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaderSeen {
    Stands,
    TermBegins,
    Resigned,
    TermLost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldEnd {
    Confirmed,
    HandedOn,
    Unconfirmed,
    AfterLoss,
    Dropped,
    Nested,
}

/// Keeps the events of locks and requests, each with its label, and notices without a label.
#[derive(Debug, Default)]
pub(crate) struct Recorder(Locked<Vec<(String, Seen)>>);

impl Recorder {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn under(&self, label: &str) -> Vec<Seen> {
        self.all().into_iter().filter(|(found, _)| found == label).map(|(_, seen)| seen).collect()
    }

    pub(crate) fn losses(&self) -> usize {
        self.count(|seen| matches!(seen, Seen::Lost { .. }))
    }

    pub(crate) fn releases_after_losses(&self) -> usize {
        self.count(|seen| matches!(seen, Seen::Released { how: HoldEnd::AfterLoss, .. }))
    }

    pub(crate) fn count(&self, is_it: impl Fn(&Seen) -> bool) -> usize {
        self.all().iter().filter(|(_, seen)| is_it(seen)).count()
    }

    pub(crate) fn all(&self) -> Vec<(String, Seen)> {
        self.0.lock().clone()
    }
}

impl Observer for Recorder {
    fn event(&self, event: &Event<'_>) {
        let of = |lock: Lock<'_>| (lock.label.to_string(), lock.key.to_string());
        let (label, seen) = match *event {
            Event::Requested { label, keys, .. } => (label.to_string(), Seen::Requested { keys }),
            Event::Queued { behind: Behind::ThisProcess, .. } => return,
            Event::Queued { label, key, waiting, .. } => {
                (label.to_string(), Seen::Queued { key: key.to_string(), waiting })
            }
            Event::Acquired { lock, how, .. } => {
                let (label, key) = of(lock);
                (label, Seen::Acquired { key, how })
            }
            Event::NotAcquired { label, .. } => (label.to_string(), Seen::NotAcquired),
            Event::Abandoned { label, .. } => (label.to_string(), Seen::Abandoned),
            Event::Renewed { lock, .. } => {
                let (label, key) = of(lock);
                (label, Seen::Renewed { key })
            }
            Event::Released { lock, outcome, .. } => {
                let (label, key) = of(lock);
                (label, Seen::Released { key, how: ended(outcome) })
            }
            Event::Lost { lock, .. } => {
                let (label, key) = of(lock);
                (label, Seen::Lost { key })
            }
            Event::Leader { label, step, .. } => (label.to_string(), Seen::Leader(seen(step))),
            Event::LongWait { .. } | Event::LongHold { .. } | Event::NotTaken { .. } => return,
            Event::Deadlock { .. }
            | Event::Link { .. }
            | Event::Failed { .. }
            | Event::LiteralPlaceholder { .. } => return,
            Event::Notice { notice } => (String::new(), Seen::Noticed { text: notice.to_string() }),
        };
        self.0.lock().push((label, seen));
    }
}

fn seen(step: LeaderStep) -> LeaderSeen {
    match step {
        LeaderStep::Stands => LeaderSeen::Stands,
        LeaderStep::TermBegins { .. } => LeaderSeen::TermBegins,
        LeaderStep::TermEnds { lost: None, .. } => LeaderSeen::Resigned,
        LeaderStep::TermEnds { lost: Some(_), .. } => LeaderSeen::TermLost,
    }
}

fn ended(outcome: ReleaseOutcome<'_>) -> HoldEnd {
    match outcome {
        ReleaseOutcome::Confirmed => HoldEnd::Confirmed,
        ReleaseOutcome::HandedOn => HoldEnd::HandedOn,
        ReleaseOutcome::Unconfirmed(_) => HoldEnd::Unconfirmed,
        ReleaseOutcome::AfterLoss => HoldEnd::AfterLoss,
        ReleaseOutcome::Dropped => HoldEnd::Dropped,
        ReleaseOutcome::Nested => HoldEnd::Nested,
    }
}
