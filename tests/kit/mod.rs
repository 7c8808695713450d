//! The test kit: failures and losses on demand, counted sections, several processes in one test, paused time.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it unwraps")]

mod faults;
mod paused;
mod processes;
mod sections;
