//! Why a fenced transaction was not committed, or may not have been.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::Fence;

/// The largest result that `once` stores, in bytes of JSON.
pub const MAX_RESULT: usize = 64 * 1024;

/// Whether PostgreSQL has refused to commit, by the SQLSTATE of an error that does not end the session. A pooler sends
/// such an error, too, if its connection to the server has broken, maybe after the commit: class 08. 40003 says that
/// the outcome is unknown. 25P01 says that the transaction ended before, so later statements may have been committed on
/// their own.
#[cfg(any(feature = "sqlx-postgres", feature = "tokio-postgres"))]
pub(crate) fn is_refused_by_postgres(sqlstate: &str) -> bool {
    !sqlstate.starts_with("08") && !matches!(sqlstate, "25P01" | "40003")
}

/// Why a fenced transaction was not committed, or that its outcome is unknown.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FenceError {
    /// A later holder of the key has already committed. Nothing was changed.
    Stale {
        /// The key.
        key: String,
        /// The token of the refused holder.
        token: u64,
        /// The largest token that has committed.
        newest: u64,
    },
    /// In a `SameDatabase`: the lock is no longer held with this token. Nothing was changed.
    NotHeld {
        /// The key.
        key: String,
        /// The token of the holder that has lost the lock.
        token: u64,
    },
    /// The database failed or refused. Nothing was committed.
    NotCommitted {
        /// The key.
        key: String,
        /// The error of the database.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The commit was sent, but its reply was lost. The transaction may have been committed or not. Check the data
    /// before you do the work again.
    ///
    /// Also: the transaction ended before the commit, because the body has hidden an error (on MySQL and SQLite),
    /// because a nested `begin` has failed or was dropped (with `sqlx` and `sea-orm`), or because the body has ended it
    /// by a statement of its own. The statements after this may have been committed.
    OutcomeUnknown {
        /// The key.
        key: String,
        /// How the reply was lost, or that there is no transaction.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The stored run of this key was made by another function or with other arguments, so the key was used for another
    /// operation. Nothing was run.
    OtherArguments {
        /// The key.
        key: String,
    },
    /// The result cannot be stored: nothing was committed.
    TooLarge {
        /// The key.
        key: String,
        /// The size of its JSON in bytes.
        bytes: usize,
    },
    /// The stored result of an earlier run does not have the requested type, because the program has changed since
    /// then. Nothing was run.
    Unreadable {
        /// The key.
        key: String,
        /// The error of the conversion.
        source: Arc<dyn Error + Send + Sync>,
    },
}

impl FenceError {
    /// For implementations of [`FencedDatabase`](crate::FencedDatabase): nothing was committed, for this reason.
    #[must_use]
    pub fn not_committed(fence: &Fence, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        FenceError::NotCommitted { key: fence.key().to_owned(), source: Arc::from(source.into()) }
    }

    /// For implementations of [`FencedDatabase`](crate::FencedDatabase): the reply to a commit was lost.
    #[must_use]
    pub fn outcome_unknown(fence: &Fence, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        FenceError::OutcomeUnknown { key: fence.key().to_owned(), source: Arc::from(source.into()) }
    }

    /// The meaning of an error in reply to a commit.
    #[cfg(any(feature = "__mysql", feature = "__postgres", feature = "__sqlite", feature = "redis"))]
    pub(crate) fn of_commit(
        fence: &Fence,
        is_refusal: bool,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        if is_refusal {
            FenceError::not_committed(fence, source)
        } else {
            FenceError::outcome_unknown(fence, source)
        }
    }

    /// For implementations of [`FencedDatabase`](crate::FencedDatabase): a token larger than this one is stored.
    #[must_use]
    pub fn stale(fence: &Fence, newest: u64) -> Self {
        FenceError::Stale { key: fence.key().to_owned(), token: fence.token(), newest }
    }

    /// For implementations of [`FencedDatabase`](crate::FencedDatabase) that check the lock: it is not held with this
    /// token.
    #[must_use]
    pub fn not_held(fence: &Fence) -> Self {
        FenceError::NotHeld { key: fence.key().to_owned(), token: fence.token() }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            FenceError::Stale { key, .. }
            | FenceError::NotHeld { key, .. }
            | FenceError::NotCommitted { key, .. }
            | FenceError::OutcomeUnknown { key, .. }
            | FenceError::OtherArguments { key }
            | FenceError::TooLarge { key, .. }
            | FenceError::Unreadable { key, .. } => key,
        }
    }
}

impl fmt::Display for FenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FenceError::Stale { key, token, newest } => write!(
                f,
                "`{key}`: the holder with fencing token {token} came too late: {newest} has committed; nothing was changed"
            ),
            FenceError::NotHeld { key, token } => write!(
                f,
                "`{key}`: the holder with fencing token {token} no longer holds the lock; nothing was changed"
            ),
            FenceError::NotCommitted { key, source } => {
                write!(f, "`{key}`: the transaction was not committed: {source}")
            }
            FenceError::OutcomeUnknown { key, source } => {
                write!(f, "`{key}`: it is not known whether the transaction was committed: {source}")
            }
            FenceError::OtherArguments { key } => write!(
                f,
                "`{key}`: an earlier run with this key was made by another function or with other arguments; use a new \
                 key for another request"
            ),
            FenceError::TooLarge { key, bytes } => write!(
                f,
                "`{key}`: the result has {bytes} bytes, more than the {MAX_RESULT} that are stored; nothing was changed"
            ),
            FenceError::Unreadable { key, source } => {
                write!(f, "`{key}`: the result of the earlier run cannot be read: {source}")
            }
        }
    }
}

impl Error for FenceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            FenceError::Stale { .. }
            | FenceError::NotHeld { .. }
            | FenceError::OtherArguments { .. }
            | FenceError::TooLarge { .. } => None,
            FenceError::NotCommitted { source, .. }
            | FenceError::OutcomeUnknown { source, .. }
            | FenceError::Unreadable { source, .. } => Some(&**source),
        }
    }
}

#[cfg(all(test, any(feature = "sqlx-postgres", feature = "tokio-postgres")))]
mod tests {
    #[test]
    fn an_error_that_may_come_after_a_commit_is_no_refusal() {
        for (sqlstate, is_refused) in [
            ("40001", true),
            ("23505", true),
            ("3B001", true),
            // Odyssey; PgBouncer up to 1.15; any server that has lost the outcome.
            ("08006", false),
            ("08P01", false),
            ("40003", false),
            // There is no transaction: a nested `begin` has ended it.
            ("25P01", false),
        ] {
            assert_eq!(super::is_refused_by_postgres(sqlstate), is_refused, "{sqlstate}");
        }
    }
}
