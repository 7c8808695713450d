//! A database with locks in tables. A statement moves its time.

use distlock_contract_tests::Server;
use distlock_fixtures::{MariaDbServer, PostgresServer};

/// A database.
pub(crate) trait Database: Server {
    /// Whether it keeps a queue of the waiters.
    const QUEUES: bool;

    /// A name for tables that no other test uses.
    fn unused_tables() -> String;

    /// The URL of these tables.
    fn url_of(&self, tables: &str) -> String;

    /// A statement that makes all rows in these tables older.
    fn age(tables: &str, seconds: u64) -> String;

    /// Executes statements.
    fn carry_out(&self, sql: &str) -> impl Future<Output = ()> + Send;
}

impl Database for PostgresServer {
    const QUEUES: bool = true;

    fn unused_tables() -> String {
        PostgresServer::unused_schema()
    }

    fn url_of(&self, tables: &str) -> String {
        let url = self.url();
        let separator = if url.contains('?') { '&' } else { '?' };
        format!("{url}{separator}schema={tables}")
    }

    fn age(tables: &str, seconds: u64) -> String {
        let all = [("lock_1", "expires"), ("holder_1", "expires"), ("waiter_1", "dies")];
        let age = |(table, column)| {
            format!("UPDATE {tables}.{table} SET {column} = {column} - interval '{seconds} s';")
        };
        all.map(age).concat()
    }

    async fn carry_out(&self, sql: &str) {
        self.run(sql).await;
    }
}

impl Database for MariaDbServer {
    const QUEUES: bool = false;

    fn unused_tables() -> String {
        MariaDbServer::unused_prefix()
    }

    fn url_of(&self, tables: &str) -> String {
        format!("{}?table_prefix={tables}", self.url())
    }

    fn age(tables: &str, seconds: u64) -> String {
        let age =
            |table| format!("UPDATE {tables}{table} SET expires = expires - INTERVAL {seconds} SECOND;");
        ["lock_1", "holder_1"].map(age).concat()
    }

    async fn carry_out(&self, sql: &str) {
        self.run(sql).await;
    }
}
