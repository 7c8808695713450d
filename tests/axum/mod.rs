//! Errors as responses, and the layer that serves one request at a time for each key.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it unwraps")]

mod idempotency;
mod layer;
mod problems;
