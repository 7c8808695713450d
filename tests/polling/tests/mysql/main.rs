//! What only MariaDB and MySQL have: tables and their permissions, transactions that write what a lock protects, and
//! their own ways to fail. What every store has to do stands in the conformance suite.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod connecting;
mod connections;
mod cost;
mod faults;
mod late;
mod rows;
mod tables;
mod transactions;
mod users;

use distlock_fixtures::MariaDbServer;

/// The URL of tables that nobody else has, and what their names begin with.
fn tables_of_its_own(server: &MariaDbServer) -> (String, String) {
    let prefix = MariaDbServer::unused_prefix();
    (format!("{}?table_prefix={prefix}", server.url()), prefix)
}
