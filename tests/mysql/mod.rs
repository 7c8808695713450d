//! Tests that only MariaDB and MySQL need: tables and their permissions, transactions that write protected data, and
//! their special failures. The conformance suite has the rules for all stores.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod connecting;
mod connections;
mod cost;
mod faults;
mod late;
mod rows;
mod several;
mod several_faults;
mod tables;
mod tls;
mod transactions;
mod users;

use distlock_fixtures::MariaDbServer;

/// The number of statements that wait for a row that another transaction has locked. (`innodb_trx` is a cache that is
/// renewed only if it was not read for 100 ms.)
const ROWS_AWAITED: &str = "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status \
                            WHERE variable_name = 'innodb_row_lock_current_waits'";

/// The URL of separate tables, and the prefix of their names.
fn tables_of_its_own(server: &MariaDbServer) -> (String, String) {
    let prefix = MariaDbServer::unused_prefix();
    (format!("{}?table_prefix={prefix}", server.url()), prefix)
}
