//! The table `distlock_fence`, as SQL for migrations of one's own.

/// For PostgreSQL.
pub const POSTGRES: &str = include_str!("sql/postgres.sql");

/// For MySQL and MariaDB. The key is binary: others compare without regard to case.
pub const MYSQL: &str = include_str!("sql/mysql.sql");

/// For SQLite.
pub const SQLITE: &str = include_str!("sql/sqlite.sql");
