//! Foreign clients of the same keys: exclusion in both directions, and progress for both.
//!
//! They share with distlock `SET key token NX PX ttl` and a compare-and-delete.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod judge;
mod plain_loop;
mod queue_py;
mod redis_py;
mod rslock;
