//! The tables `distlock_fence` and `distlock_once`, as SQL for your own migrations. The second one is needed only for
//! the feature `once`. Its times are milliseconds since 1970 by the clock of the database.

/// For PostgreSQL.
pub const POSTGRES: &str = include_str!("sql/postgres.sql");

/// For MySQL and MariaDB. The key is binary, because text columns ignore case in comparisons.
pub const MYSQL: &str = include_str!("sql/mysql.sql");

/// For SQLite.
pub const SQLITE: &str = include_str!("sql/sqlite.sql");
