//! The series of one label: handles that are made when they are first used, and kept. Those of losses are made at once:
//! a collector sees the increase from 0 to 1, but not a series that begins with 1.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use once_cell::sync::OnceCell;

use super::names;
use distlock_store::kit::sync::Locked;

/// How a request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutcomeLabel {
    Acquired,
    Busy,
    Unavailable,
    Invalid,
    WrongKind,
    WouldDeadlock,
    Closed,
    Abandoned,
}

const OUTCOMES: [&str; 8] =
    ["acquired", "busy", "unavailable", "invalid", "wrong_kind", "would_deadlock", "closed", "abandoned"];
pub(super) const HOW: [&str; 6] = ["free", "asked", "granted", "handed_on", "joined", "nested"];
pub(super) const REASONS: [&str; 4] = ["expired", "taken", "max_hold", "shutdown"];
pub(super) const RELEASES: [&str; 6] =
    ["confirmed", "handed_on", "unconfirmed", "after_loss", "dropped", "nested"];
const WAITS: [&str; 2] = ["acquired", "not_acquired"];

/// The number of locks in use under a label. It is kept here, too, for a recorder that is installed later.
#[derive(Debug, Default)]
pub(super) struct Levels {
    held: AtomicI64,
    waiting: AtomicI64,
    /// `None`: the label is that of no office.
    leaders: Locked<Option<i64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Held,
    Waiting,
}

impl Levels {
    fn of(&self, level: Level) -> &AtomicI64 {
        match level {
            Level::Held => &self.held,
            Level::Waiting => &self.waiting,
        }
    }
}

/// Handles of one recorder.
#[derive(Debug)]
pub(super) struct Series {
    label: String,
    requests: [OnceCell<Counter>; OUTCOMES.len()],
    wait: [OnceCell<Histogram>; WAITS.len()],
    waiting: Gauge,
    queued: OnceCell<Counter>,
    acquired: [OnceCell<Counter>; HOW.len()],
    held: Gauge,
    hold: OnceCell<Histogram>,
    lease_left: OnceCell<Histogram>,
    lost: [Counter; REASONS.len()],
    releases: [OnceCell<Counter>; RELEASES.len()],
    renewals: OnceCell<Counter>,
    renewals_late: OnceCell<Counter>,
}

impl Series {
    pub(super) fn new(label: &str, levels: &Levels) -> Self {
        let level = |name: &'static str, level: Level| {
            let gauge = gauge!(name, "label" => label.to_owned());
            shift(&gauge, levels.of(level).load(Ordering::Relaxed));
            gauge
        };
        if let Some(leaders) = *levels.leaders.lock() {
            shift(&gauge!(names::LEADER, "label" => label.to_owned()), leaders);
        }
        Series {
            label: label.to_owned(),
            requests: Default::default(),
            wait: Default::default(),
            waiting: level(names::WAITING, Level::Waiting),
            queued: OnceCell::new(),
            acquired: Default::default(),
            held: level(names::HELD, Level::Held),
            hold: OnceCell::new(),
            lease_left: OnceCell::new(),
            lost: REASONS
                .map(|reason| counter!(names::LOST, "label" => label.to_owned(), "reason" => reason)),
            releases: Default::default(),
            renewals: OnceCell::new(),
            renewals_late: OnceCell::new(),
        }
    }

    fn one_of<const N: usize>(
        &self,
        cells: &[OnceCell<Counter>; N],
        words: &[&'static str; N],
        index: usize,
        (name, by): (&'static str, &'static str),
        count: u64,
    ) {
        if let (Some(cell), Some(word)) = (cells.get(index), words.get(index)) {
            cell.get_or_init(|| counter!(name, "label" => self.label.clone(), by => *word)).increment(count);
        }
    }

    fn plain(&self, cell: &OnceCell<Counter>, name: &'static str) {
        cell.get_or_init(|| counter!(name, "label" => self.label.clone())).increment(1);
    }

    pub(super) fn requested(&self, outcome: OutcomeLabel, count: u64, waited: Duration) {
        self.one_of(&self.requests, &OUTCOMES, outcome as usize, (names::REQUESTS, "outcome"), count);
        let index = usize::from(outcome != OutcomeLabel::Acquired);
        if let (Some(cell), Some(word)) = (self.wait.get(index), WAITS.get(index)) {
            let made = || histogram!(names::WAIT, "label" => self.label.clone(), "outcome" => *word);
            cell.get_or_init(made).record(waited.as_secs_f64());
        }
    }

    pub(super) fn queued(&self) {
        self.plain(&self.queued, names::QUEUED);
    }

    pub(super) fn acquired(&self, how: usize) {
        self.one_of(&self.acquired, &HOW, how, (names::ACQUIRED, "how"), 1);
    }

    pub(super) fn held_for(&self, held: Duration) {
        let made = || histogram!(names::HOLD, "label" => self.label.clone());
        self.hold.get_or_init(made).record(held.as_secs_f64());
    }

    pub(super) fn lost(&self, reason: usize) {
        if let Some(counter) = self.lost.get(reason) {
            counter.increment(1);
        }
    }

    pub(super) fn released(&self, outcome: usize) {
        self.one_of(&self.releases, &RELEASES, outcome, (names::RELEASES, "outcome"), 1);
    }

    pub(super) fn renewed(&self) {
        self.plain(&self.renewals, names::RENEWALS);
    }

    pub(super) fn renewed_late(&self) {
        self.plain(&self.renewals_late, names::RENEWALS_LATE);
    }

    pub(super) fn left_at_renewal(&self, left: Duration) {
        let made = || histogram!(names::LEASE_LEFT, "label" => self.label.clone());
        self.lease_left.get_or_init(made).record(left.as_secs_f64());
    }

    /// Events of leaders are rare, so no handles are kept for them.
    pub(super) fn terms(&self, count: u64) {
        counter!(names::TERMS, "label" => self.label.clone()).increment(count);
    }

    pub(super) fn terms_ended(&self, how: &'static str, count: u64) {
        counter!(names::TERMS_ENDED, "label" => self.label.clone(), "how" => how).increment(count);
    }

    /// This many more candidates of this manager lead. Other managers of the process may share the label, so the gauge
    /// is moved, and not set.
    pub(super) fn shift_leaders(&self, levels: &Levels, by: i64) {
        *levels.leaders.lock().get_or_insert_default() += by;
        shift(&gauge!(names::LEADER, "label" => self.label.clone()), by);
    }

    /// Moves a gauge by this many.
    pub(super) fn shift(&self, levels: &Levels, level: Level, by: i64) {
        levels.of(level).fetch_add(by, Ordering::Relaxed);
        let gauge = match level {
            Level::Held => &self.held,
            Level::Waiting => &self.waiting,
        };
        shift(gauge, by);
    }
}

/// Moves a gauge by this many.
fn shift(gauge: &Gauge, by: i64) {
    if by >= 0 {
        gauge.increment(exact(by));
    } else {
        gauge.decrement(exact(-by));
    }
}

/// Counts that are too large to be exact as floating-point numbers do not occur.
fn exact(count: i64) -> f64 {
    f64::from(i32::try_from(count).unwrap_or(i32::MAX))
}
