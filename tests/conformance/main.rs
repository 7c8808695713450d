//! What every backend has to do, written once: each rule is an `async fn(Backend)` named after what it checks.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod attribute;
mod exclusion;
mod fencing;
mod lease;
mod loss;
mod operations;
mod reentry;
mod release;
mod several_keys;
mod shared;
mod threads;
mod waiting;
