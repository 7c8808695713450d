//! For tests of what is built on this crate, or into it. Feature `testing`.
//!
//! - [`conformance`]: what a store has to do, as a suite of tests for stores of one's own.
//! - [`drop_after`]: drops a future at a chosen place. [`eventually`]: waits for a condition instead of sleeping.

pub mod conformance;
mod drop_after;
mod eventually;

pub use drop_after::drop_after;
pub use eventually::{BOUND, eventually};
