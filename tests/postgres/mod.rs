//! Tests that only PostgreSQL needs: roles and their permissions, poolers, transactions that write protected data, and
//! its special failures. The conformance suite has the rules for all stores.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod commands_that_come_late;
mod connecting;
mod faults;
mod pooler;
mod prepared;
mod queue;
mod roles;
mod rows;
mod schema;
mod tls;
mod transactions;

use distlock::LockManager;

use crate::each_store::LONG;

/// A manager for a separate schema on a server.
async fn manager(url: &str, schema: &str) -> LockManager {
    LockManager::builder().url(in_schema(url, schema)).unavailable_after(LONG).connect().await.unwrap()
}

fn in_schema(url: &str, schema: &str) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}schema={schema}")
}
