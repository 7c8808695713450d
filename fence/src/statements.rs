//! SQL that several libraries share.

/// Stores the token of a key unless a larger one is stored. No row: there is one.
#[cfg(any(feature = "__postgres", feature = "__sqlite"))]
pub(crate) const CHECK: &str = include_str!("sql/check.sql");

/// The token of a key. Where it follows a check in its transaction the row is locked.
#[cfg(any(feature = "__postgres", feature = "__sqlite"))]
pub(crate) const NEWEST: &str = "SELECT token FROM distlock_fence WHERE key = $1";

/// Fails if a statement has failed before: PostgreSQL answers COMMIT then by a rollback that looks like success. It is
/// not planned, as SELECT would be. If a library does not report that its connection was closed, this statement fails
/// before COMMIT is sent.
#[cfg(any(feature = "diesel-postgres", feature = "diesel-async-postgres", feature = "__sea-orm"))]
pub(crate) const STILL_GOOD: &str = "SAVEPOINT still_good";

/// The same with the commit. The server executes it only if the previous statement has not failed.
#[cfg(feature = "tokio-postgres")]
pub(crate) const COMMIT_IF_GOOD: &str = "SAVEPOINT still_good; COMMIT";

/// The same for `sqlx`, which sends ROLLBACK when the transaction is dropped, behind everything else: there is one that
/// it can end, else the server would warn each time.
#[cfg(feature = "sqlx-postgres")]
pub(crate) const COMMIT_AND_BEGIN: &str = "SAVEPOINT still_good; COMMIT; BEGIN";

/// Makes the table. Two that do so at the same time would disturb each other, in spite of IF NOT EXISTS: statements
/// that are sent together are one transaction, which keeps the advisory lock.
#[cfg(feature = "__postgres")]
pub(crate) const MAKE_IN_POSTGRES: &str =
    concat!("SELECT pg_advisory_xact_lock(hashtext('distlock_fence')); ", include_str!("sql/postgres.sql"));

/// Stores the larger token. VALUES() is deprecated by MySQL, but MariaDB knows nothing else.
#[cfg(feature = "__mysql")]
pub(crate) const RAISE_IN_MYSQL: &str = "INSERT INTO distlock_fence (`key`, token) VALUES (?, ?) \
                                         ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))";

/// The token of a key as it is committed now, not in the snapshot of the transaction.
#[cfg(feature = "__mysql")]
pub(crate) const NEWEST_IN_MYSQL: &str = "SELECT token FROM distlock_fence WHERE `key` = ? FOR UPDATE";
