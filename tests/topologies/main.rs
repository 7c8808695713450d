//! Several servers together under load and faults: one file for each fault, named after its test.
//!
//! Each prints a row of the table in `docs/faults.md`. Where the servers keep what they have said, no two holders
//! overlap; where a fail-over may lose writes, they are counted, and the fencing tokens keep the order.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod load;
mod row;
mod sentinel_master_killed;
