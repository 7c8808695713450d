//! The tables `distlock_fence` and `distlock_once`, as SQL for migrations of one's own. The second one is for the
//! feature `once` alone; its times are milliseconds since 1970 by the clock of the database.

/// For PostgreSQL.
pub const POSTGRES: &str = include_str!("sql/postgres.sql");

/// For MySQL and MariaDB. The key is binary: others compare without regard to case.
pub const MYSQL: &str = include_str!("sql/mysql.sql");

/// For SQLite.
pub const SQLITE: &str = include_str!("sql/sqlite.sql");
