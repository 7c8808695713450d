//! SQL for the results of runs that several libraries share.

use std::error::Error;
use std::time::Duration;

use crate::{Fence, FenceError};

/// Results of runs. Times are milliseconds since 1970 by the clock of the database.
pub(crate) struct OnceStatements {
    /// The result and the arguments of a key, unless they have expired.
    pub(crate) find: &'static str,
    /// The same outside a transaction. It must not read a result that is not committed.
    pub(crate) find_committed: &'static str,
    /// Key, result, arguments, token, and the time in milliseconds. It replaces an older result. On PostgreSQL, it
    /// stores no row if the body has ended the transaction, because the row alone would then be committed at once: the
    /// check of the fence has given the transaction an identifier.
    pub(crate) store: &'static str,
    /// Deletes expired results.
    pub(crate) prune: &'static str,
}

#[allow(unused_macro_rules, reason = "each database needs one of them")]
macro_rules! once_statements {
    (key: $key:literal, parameter: $first:literal, parameters: $parameters:literal, now: $now:literal,
     committed: $committed:literal, $store:literal $values:literal $end:literal $behind:literal) => {
        OnceStatements {
            find: concat!(
                "SELECT result, arguments FROM distlock_once WHERE ", $key, " = ", $first, " AND expires > ", $now
            ),
            find_committed: concat!(
                "SELECT result, arguments FROM distlock_once WHERE ", $key, " = ", $first, " AND expires > ", $now,
                $committed
            ),
            store: concat!(
                $store, " INTO distlock_once (", $key, ", result, arguments, token, expires) ", $values, $parameters,
                " + ", $now, $end, $behind
            ),
            prune: concat!("DELETE FROM distlock_once WHERE expires <= ", $now),
        }
    };
    (standard, now: $now:literal, $values:literal $end:literal) => {
        once_statements!(
            key: "key",
            parameter: "$1",
            parameters: "$1, $2, $3, $4, $5",
            now: $now,
            committed: "",
            "INSERT" $values $end " ON CONFLICT (key) DO UPDATE SET result = excluded.result, \
                                   arguments = excluded.arguments, token = excluded.token, \
                                   expires = excluded.expires"
        )
    };
}

/// `clock_timestamp()` changes within a statement, so `prune` would read the whole table instead of the index.
#[cfg(feature = "__postgres")]
pub(crate) const POSTGRES: OnceStatements = once_statements!(
    standard,
    now: "(extract(epoch FROM statement_timestamp()) * 1000)::bigint",
    "SELECT " " WHERE txid_current_if_assigned() IS NOT NULL"
);

#[cfg(feature = "__sqlite")]
pub(crate) const SQLITE: OnceStatements = once_statements!(
    standard,
    now: "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    "VALUES (" ")"
);

/// Not from `NOW()`: a local time in the hour that a time zone repeats stands for two moments. At READ UNCOMMITTED,
/// only a locking read waits for the end of a transaction that has stored a result. (MariaDB does not know FOR SHARE.)
#[cfg(feature = "__mysql")]
pub(crate) const MYSQL: OnceStatements = once_statements!(
    key: "`key`",
    parameter: "?",
    parameters: "?, ?, ?, ?, ?",
    now: "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000",
    committed: " LOCK IN SHARE MODE",
    "REPLACE" "VALUES (" ")" ""
);

/// A longer time has the same effect as no limit, and with this bound no sum is too large for a database.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// How long a result is kept.
pub(crate) fn millis(keep: Duration) -> i64 {
    i64::try_from(keep.min(LONGEST).as_millis()).unwrap_or(i64::MAX)
}

/// The meaning of the reply to `store`, with the number of its rows.
pub(crate) fn stored<R, E>(rows: Result<R, E>, fence: &Fence) -> Result<(), FenceError>
where
    R: Default + PartialEq,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    match rows {
        Ok(rows) if rows == R::default() => {
            Err(FenceError::outcome_unknown(fence, "the transaction has ended"))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(FenceError::not_committed(fence, error)),
    }
}
