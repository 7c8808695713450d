//! Errors as responses, the layer that serves one request at a time for each key, and the health of a leader.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it unwraps")]

mod health;
mod idempotency;
mod layer;
mod problems;
