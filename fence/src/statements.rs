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
#[cfg(any(feature = "diesel-postgres", feature = "diesel-async-postgres"))]
pub(crate) const STILL_GOOD: &str = "SAVEPOINT still_good";

/// The same with the commit. The server executes it only if the previous statement has not failed.
#[cfg(feature = "tokio-postgres")]
pub(crate) const COMMIT_IF_GOOD: &str = "SAVEPOINT still_good; COMMIT";

/// The same for `sqlx` and `sea-orm`, which send ROLLBACK when the transaction is dropped, behind everything else:
/// there is one that it can end, else the server would warn each time.
#[cfg(any(feature = "sqlx-postgres", feature = "__sea-orm"))]
pub(crate) const COMMIT_AND_BEGIN: &str = "SAVEPOINT still_good; COMMIT; BEGIN";

/// On MySQL and SQLite, some errors roll back the whole transaction, and what a body executes then is committed at
/// once. The rollback also removes this savepoint, without which no result is stored, and nothing is committed. (COMMIT
/// would not always fail: on SQLite, a savepoint outside of a transaction begins one.)
#[cfg(feature = "__sqlite")]
pub(crate) const MARK: &str = "SAVEPOINT still_open";

/// Fails if the mark is gone.
#[cfg(any(
    feature = "diesel-sqlite",
    feature = "sqlx-sqlite",
    all(feature = "once", any(feature = "__mysql", feature = "rusqlite"))
))]
pub(crate) const STILL_OPEN: &str = "RELEASE SAVEPOINT still_open; SAVEPOINT still_open";

/// Begins with the mark, by one message.
#[cfg(feature = "sqlx-mysql")]
pub(crate) const BEGIN_MARKED_IN_MYSQL: &str = "BEGIN; SAVEPOINT still_open";

/// Commits only if the mark is there.
#[cfg(any(feature = "__mysql", feature = "rusqlite"))]
pub(crate) const COMMIT_IF_OPEN: &str = "RELEASE SAVEPOINT still_open; COMMIT";

/// Makes the tables. If they exist, it needs no right to create tables, which CREATE TABLE IF NOT EXISTS does. Two that
/// make them at the same time would disturb each other, so the statement keeps an advisory lock.
#[cfg(feature = "__postgres")]
pub(crate) const MAKE_IN_POSTGRES: &str = concat!(
    "DO $$ BEGIN IF to_regclass('distlock_fence') IS NULL OR to_regclass('distlock_once') IS NULL \
     OR to_regclass('distlock_once_expires') IS NULL THEN \
     PERFORM pg_advisory_xact_lock(hashtext('distlock_fence')); ",
    include_str!("sql/postgres.sql"),
    " END IF; END $$"
);

/// Stores the larger token. VALUES() is deprecated by MySQL, but MariaDB knows nothing else.
#[cfg(feature = "__mysql")]
pub(crate) const RAISE_IN_MYSQL: &str = "INSERT INTO distlock_fence (`key`, token) VALUES (?, ?) \
                                         ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))";

/// The same with the mark, as one text for one message, which cannot be prepared.
#[cfg(any(feature = "mysql-async", feature = "__sea-orm"))]
pub(crate) fn raise_and_mark_in_mysql(key: &str, token: i64) -> String {
    let key: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
    let raise = RAISE_IN_MYSQL.replacen('?', &format!("x'{key}'"), 1).replacen('?', &token.to_string(), 1);
    format!("{raise}; SAVEPOINT still_open")
}

/// The token of a key as it is committed now, not in the snapshot of the transaction.
#[cfg(feature = "__mysql")]
pub(crate) const NEWEST_IN_MYSQL: &str = "SELECT token FROM distlock_fence WHERE `key` = ? FOR UPDATE";
