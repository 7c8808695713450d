//! Tests that only Memcached needs: forgotten items, and its special failures. The conformance suite has the rules for
//! all stores.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod connecting;
mod cost;
mod faults;
mod forgetting;
mod items;
mod stopped;
