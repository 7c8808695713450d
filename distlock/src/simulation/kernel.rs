//! True time, due events, chance, and the account of a run.

use fastrand::Rng;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::{MICRO, MILLI, SECOND};

/// An event at a time. Several events at one time happen in the order in which they were planned.
#[derive(Debug)]
struct Due<E> {
    at: u64,
    order: u64,
    event: E,
}

impl<E> PartialEq for Due<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Due<E> {}

impl<E> PartialOrd for Due<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Due<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap gives the greatest first.
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

/// Whether the account of a run is written: only when a seed is run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    Written,
    Omitted,
}

/// The parts that every world has. `E` is the type of its events.
pub(crate) struct Kernel<E> {
    pub(crate) rng: Rng,
    /// True time, in nanoseconds.
    pub(crate) now: u64,
    order: u64,
    due: BinaryHeap<Due<E>>,
    /// The account of the run, if it is written.
    pub(crate) trace: Option<Vec<String>>,
    /// The time that the account calls zero.
    zero: u64,
    /// The first violation.
    pub(crate) failure: Option<String>,
}

impl<E> Kernel<E> {
    /// True time begins at one second.
    pub(crate) fn new(rng: Rng, account: Account, zero: u64) -> Self {
        Kernel {
            rng,
            now: SECOND,
            order: 0,
            due: BinaryHeap::new(),
            trace: (account == Account::Written).then(Vec::new),
            zero,
            failure: None,
        }
    }

    pub(crate) fn at(&mut self, at: u64, event: E) {
        self.order += 1;
        self.due.push(Due { at: at.max(self.now), order: self.order, event });
    }

    pub(crate) fn after(&mut self, delay: u64, event: E) {
        self.at(self.now + delay, event);
    }

    /// Returns the next event, if it is due by `end`, and sets the true time to its time.
    pub(crate) fn next(&mut self, end: u64) -> Option<E> {
        let Due { at, event, .. } = self.due.pop().filter(|due| due.at <= end)?;
        self.now = at;
        Some(event)
    }

    /// Adds a line to the account, which is computed only if the account is kept.
    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        let now = self.now - self.zero;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>12.3} ms  {}", now as f64 / MILLI as f64, text()));
        }
    }

    /// The first violation counts.
    pub(crate) fn fail(&mut self, what: String) {
        self.note(|| format!("VIOLATION: {what}"));
        self.failure.get_or_insert(what);
    }

    pub(crate) fn chance(&mut self, p: f64) -> bool {
        chance(&mut self.rng, p)
    }

    /// A random time up to `most`.
    pub(crate) fn some(&mut self, most: u64) -> u64 {
        self.rng.u64(0..=most)
    }

    /// A random time within these bounds, which are in microseconds.
    pub(crate) fn between(&mut self, (least, most): (u64, u64)) -> u64 {
        self.rng.u64(least..=most) * MICRO
    }
}

/// Draws nothing if it is impossible.
pub(crate) fn chance(rng: &mut Rng, p: f64) -> bool {
    p > 0.0 && rng.f64() < p
}
