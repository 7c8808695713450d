//! What only MariaDB and MySQL have: tables and their permissions, transactions that write what a lock protects, and
//! their own ways to fail. What every store has to do stands in the conformance suite.

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

/// How many statements wait for a row that another transaction has locked. (`innodb_trx` would be read from a cache,
/// which is renewed only if nobody has read it for 100 ms.)
const ROWS_AWAITED: &str = "SELECT CAST(variable_value AS SIGNED) FROM information_schema.global_status \
                            WHERE variable_name = 'innodb_row_lock_current_waits'";

/// The URL of tables that nobody else has, and what their names begin with.
fn tables_of_its_own(server: &MariaDbServer) -> (String, String) {
    let prefix = MariaDbServer::unused_prefix();
    (format!("{}?table_prefix={prefix}", server.url()), prefix)
}
