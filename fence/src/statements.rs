//! SQL that several libraries have in common.

#[cfg(feature = "once")]
use std::time::Duration;

/// Stores the token of a key unless a larger one is stored. No row: there is one.
#[cfg(any(feature = "__postgres", feature = "__sqlite"))]
pub(crate) const CHECK: &str = include_str!("sql/check.sql");

/// The token of a key. Where it follows a check in its transaction the row is locked.
#[cfg(any(feature = "__postgres", feature = "__sqlite"))]
pub(crate) const NEWEST: &str = "SELECT token FROM distlock_fence WHERE key = $1";

/// Fails if a statement has failed before: PostgreSQL answers COMMIT then by a rollback that looks like success.
#[cfg(feature = "__postgres")]
pub(crate) const STILL_GOOD: &str = "SELECT 1";

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

/// Results of runs. Times are milliseconds since 1970 by the clock of the database.
#[cfg(feature = "once")]
pub(crate) struct OnceStatements {
    /// The result and the arguments of a key, unless their time is over.
    pub(crate) find: &'static str,
    /// Key, result, arguments, token, and for how many milliseconds, in place of an older result.
    pub(crate) store: &'static str,
    /// Deletes those whose time is over.
    pub(crate) prune: &'static str,
}

#[cfg(feature = "once")]
macro_rules! once_statements {
    (key: $key:literal, parameter: $first:literal, parameters: $parameters:literal, now: $now:literal,
     $store:literal $behind:literal) => {
        OnceStatements {
            find: concat!(
                "SELECT result, arguments FROM distlock_once WHERE ", $key, " = ", $first, " AND expires > ", $now
            ),
            store: concat!(
                $store, " INTO distlock_once (", $key, ", result, arguments, token, expires) VALUES (", $parameters,
                " + ", $now, ")", $behind
            ),
            prune: concat!("DELETE FROM distlock_once WHERE expires <= ", $now),
        }
    };
    (standard, now: $now:literal) => {
        once_statements!(
            key: "key",
            parameter: "$1",
            parameters: "$1, $2, $3, $4, $5",
            now: $now,
            "INSERT" " ON CONFLICT (key) DO UPDATE SET result = excluded.result, arguments = excluded.arguments, \
                      token = excluded.token, expires = excluded.expires"
        )
    };
}

#[cfg(all(feature = "once", feature = "__postgres"))]
pub(crate) const ONCE_IN_POSTGRES: OnceStatements =
    once_statements!(standard, now: "(extract(epoch FROM clock_timestamp()) * 1000)::bigint");

#[cfg(all(feature = "once", feature = "__sqlite"))]
pub(crate) const ONCE_IN_SQLITE: OnceStatements =
    once_statements!(standard, now: "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)");

#[cfg(all(feature = "once", feature = "__mysql"))]
pub(crate) const ONCE_IN_MYSQL: OnceStatements = once_statements!(
    key: "`key`",
    parameter: "?",
    parameters: "?, ?, ?, ?, ?",
    now: "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)",
    "REPLACE" ""
);

/// Longer is as good as for ever, and no sum with it is too large for a database.
#[cfg(feature = "once")]
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// How long a result is kept.
#[cfg(feature = "once")]
pub(crate) fn millis(keep: Duration) -> i64 {
    i64::try_from(keep.min(LONGEST).as_millis()).unwrap_or(i64::MAX)
}
