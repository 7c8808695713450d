//! What only Memcached has: items that it forgets, and its own ways to fail. What every store has to do stands in the
//! conformance suite.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod connecting;
mod cost;
mod faults;
mod forgetting;
mod items;
mod stopped;
