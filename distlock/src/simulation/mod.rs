//! The common parts of the simulated worlds: time, due events, clocks that disagree, chance, the account of a run, and
//! tasks that run on one thread in an order that the seed decides.
//!
//! A world (`engine/sim`, `backend/quorum/sim`) is a [`Kernel`] with its own servers, processes, faults and oracle,
//! because a broken link has different effects with one server and with a majority.

pub(crate) mod clocks;
pub(crate) mod digest;
pub(crate) mod kernel;
pub(crate) mod tasks;
pub(crate) mod wakes;

pub(crate) use kernel::{Account, Kernel};

/// Nanoseconds.
pub(crate) const MICRO: u64 = 1_000;
pub(crate) const MILLI: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000_000_000;

/// Whether processes are notified of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    Comes,
    Never,
}

/// A number from the environment: which runs to make, or how many.
pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
