//! Transactions of `diesel` on PostgreSQL and SQLite, which block: inside an async function call them in
//! `spawn_blocking`, or use [`diesel_async`](crate::diesel_async).
//!
//! ```
//! use diesel::prelude::*;
//! use distlock_fence::Fence;
//! # #[derive(Debug)] enum RedeemError { Fence(distlock_fence::FenceError), Database(diesel::result::Error) }
//! # impl From<distlock_fence::FenceError> for RedeemError {
//! #     fn from(error: distlock_fence::FenceError) -> Self { RedeemError::Fence(error) }
//! # }
//! # impl From<diesel::result::Error> for RedeemError {
//! #     fn from(error: diesel::result::Error) -> Self { RedeemError::Database(error) }
//! # }
//! diesel::table! {
//!     account (id) { id -> BigInt, points -> BigInt, }
//! }
//!
//! # #[cfg(feature = "diesel-sqlite")]
//! fn redeem(
//!     connection: &mut SqliteConnection,
//!     fence: &Fence,
//!     user: i64,
//!     price: i64,
//! ) -> Result<(), RedeemError> {
//!     distlock_fence::diesel::transaction(fence, connection, |connection| {
//!         diesel::update(account::table.find(user))
//!             .set(account::points.eq(account::points - price))
//!             .execute(connection)?;
//!         Ok(())
//!     })
//! }
//! ```

use std::error;

use diesel::backend::Backend;
use diesel::connection::{LoadConnection, TransactionManager};
use diesel::result::DatabaseErrorKind::{
    CheckViolation, ExclusionViolation, ForeignKeyViolation, NotNullViolation, RestrictViolation,
    SerializationFailure, UniqueViolation,
};
use diesel::result::{Error, QueryResult};
use diesel::sql_types::{BigInt, Text};
use diesel::{OptionalExtension, QueryableByName, RunQueryDsl, sql_query};

use crate::{Fence, FenceError, signed, statements};

/// [`transaction`](crate::transaction) on a connection, or on one of a pool: the same order, the same promises, the
/// same errors. Inside of another transaction it is refused: what `body` does would be committed later, or never.
///
/// # Errors
/// Those of `body`, and each [`FenceError`]. Diesel tells few errors of a commit apart: more of them than with other
/// libraries are [`FenceError::OutcomeUnknown`].
pub fn transaction<C, T, E, F>(fence: &Fence, connection: &mut C, body: F) -> Result<T, E>
where
    C: LoadConnection<Backend: FencedBackend>,
    E: From<FenceError>,
    F: FnOnce(&mut C) -> Result<T, E>,
{
    let failed = |error| FenceError::not_committed(fence, error);
    let open = Open::begin(connection).map_err(failed)?;
    check(open.connection, fence)?;
    let value = body(open.connection)?;
    if let Some(statement) = C::Backend::STILL_GOOD {
        open.connection.batch_execute(statement).map_err(failed)?;
    }
    open.commit().map_err(|error| match is_refusal(&error) {
        true => FenceError::not_committed(fence, error),
        false => FenceError::outcome_unknown(fence, error),
    })?;
    Ok(value)
}

/// Makes the table `distlock_fence`, if there is none.
///
/// # Errors
/// What the database said.
pub fn migrate<C>(connection: &mut C) -> Result<(), Box<dyn error::Error + Send + Sync>>
where
    C: LoadConnection<Backend: FencedBackend>,
{
    Ok(connection.batch_execute(C::Backend::MAKE)?)
}

fn check<C>(connection: &mut C, fence: &Fence) -> Result<(), FenceError>
where
    C: LoadConnection<Backend: FencedBackend>,
{
    let failed = |error| FenceError::not_committed(fence, error);
    if C::Backend::raise(connection, fence.key(), signed(fence)?).map_err(failed)?.is_some() {
        return Ok(());
    }
    let newest = C::Backend::newest(connection, fence.key()).map_err(failed)?;
    Err(FenceError::stale(fence, newest.token.unsigned_abs()))
}

/// A transaction, which is rolled back when it is dropped.
struct Open<'c, C: LoadConnection> {
    connection: &'c mut C,
    is_open: bool,
}

impl<'c, C: LoadConnection> Open<'c, C> {
    fn begin(connection: &'c mut C) -> QueryResult<Self> {
        let status = C::TransactionManager::transaction_manager_status_mut(connection);
        if status.transaction_depth()?.is_some() {
            return Err(Error::AlreadyInTransaction);
        }
        C::TransactionManager::begin_transaction(connection)?;
        Ok(Open { connection, is_open: true })
    }

    fn commit(mut self) -> QueryResult<()> {
        // If it fails, diesel rolls back, or gives the connection up.
        self.is_open = false;
        C::TransactionManager::commit_transaction(self.connection)
    }
}

impl<C: LoadConnection> Drop for Open<'_, C> {
    fn drop(&mut self) {
        if self.is_open {
            // If it fails, diesel gives the connection up.
            drop(C::TransactionManager::rollback_transaction(self.connection));
        }
    }
}

/// Whether the database has refused to commit. Of other errors diesel does not say whether they ended the connection,
/// maybe after the commit.
pub(crate) fn is_refusal(error: &Error) -> bool {
    let kind = match error {
        Error::RollbackErrorOnCommit { commit_error, .. } => return is_refusal(commit_error),
        Error::DatabaseError(kind, _) => kind,
        _ => return false,
    };
    matches!(
        kind,
        UniqueViolation
            | ForeignKeyViolation
            | NotNullViolation
            | CheckViolation
            | ExclusionViolation
            | RestrictViolation
            | SerializationFailure
    )
}

/// A row with a token.
#[derive(Debug, QueryableByName)]
#[doc(hidden)]
pub struct Row {
    #[diesel(sql_type = BigInt)]
    pub(crate) token: i64,
}

/// A database of `diesel` whose transactions can be fenced: PostgreSQL and SQLite.
#[diagnostic::on_unimplemented(
    message = "the transactions of `{Self}` cannot be fenced",
    note = "turn on the feature of distlock-fence for it: `diesel-postgres` or `diesel-sqlite`"
)]
pub trait FencedBackend: Backend {
    #[doc(hidden)]
    const MAKE: &str;
    #[doc(hidden)]
    const STILL_GOOD: Option<&str>;
    #[doc(hidden)]
    fn raise<C: LoadConnection<Backend = Self>>(
        connection: &mut C,
        key: &str,
        token: i64,
    ) -> QueryResult<Option<Row>>;
    #[doc(hidden)]
    fn newest<C: LoadConnection<Backend = Self>>(connection: &mut C, key: &str) -> QueryResult<Row>;
}

/// The statements are the same. What each of them needs of the backend would be a long list if the backend were a
/// parameter.
macro_rules! fenced {
    ($backend:ty, $make:expr, $still_good:expr) => {
        impl FencedBackend for $backend {
            const MAKE: &str = $make;
            const STILL_GOOD: Option<&str> = $still_good;

            fn raise<C: LoadConnection<Backend = Self>>(
                connection: &mut C,
                key: &str,
                token: i64,
            ) -> QueryResult<Option<Row>> {
                let raise = sql_query(statements::CHECK).bind::<Text, _>(key).bind::<BigInt, _>(token);
                raise.get_result(connection).optional()
            }

            fn newest<C: LoadConnection<Backend = Self>>(connection: &mut C, key: &str) -> QueryResult<Row> {
                sql_query(statements::NEWEST).bind::<Text, _>(key).get_result(connection)
            }
        }
    };
}

#[cfg(feature = "diesel-postgres")]
fenced!(diesel::pg::Pg, statements::MAKE_IN_POSTGRES, Some(statements::STILL_GOOD));
#[cfg(feature = "diesel-sqlite")]
fenced!(diesel::sqlite::Sqlite, crate::schema::SQLITE, None);
