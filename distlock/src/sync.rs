//! The atomics of the words that no lock protects: those of the standard library, or, for the model checks, those of
//! `loom`, which tries every order in which threads can meet and every stale value that a load may return.
//!
//! The model checks are the tests whose names begin with `loom_`; `scripts/check_models.sh` runs them.

pub(crate) mod atomic {
    #[cfg(all(test, distlock_loom))]
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
    #[cfg(not(all(test, distlock_loom)))]
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

    #[cfg(all(test, distlock_loom))]
    pub(crate) use loom::sync::atomic::AtomicUsize;
    #[cfg(not(all(test, distlock_loom)))]
    pub(crate) use std::sync::atomic::AtomicUsize;
}
