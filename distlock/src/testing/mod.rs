//! For tests of what is built on this crate, or into it. Feature `testing`.
//!
//! [`conformance`]: what a store has to do, as a suite of tests for stores of one's own.

pub mod conformance;
