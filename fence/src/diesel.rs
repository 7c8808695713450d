//! `diesel`: its blocking connections, and the part that they share with those of `diesel-async`.

use std::num::NonZeroU32;

use diesel::QueryableByName;
use diesel::connection::TransactionManagerStatus;
use diesel::result::DatabaseErrorKind::{
    CheckViolation, ExclusionViolation, ForeignKeyViolation, NotNullViolation, RestrictViolation,
    SerializationFailure, UniqueViolation,
};
use diesel::result::Error;
use diesel::sql_types::BigInt;
#[cfg(feature = "once")]
use diesel::sql_types::{Binary, Nullable, Text};

use crate::{Fence, FenceError};
#[cfg(any(feature = "diesel-postgres", feature = "diesel-async-postgres"))]
use crate::{NOT_HELD, same_database::asserted};

/// A row with a token.
#[derive(Debug, QueryableByName)]
pub(crate) struct Row {
    #[diesel(sql_type = BigInt)]
    pub(crate) token: i64,
}

/// A row with a result.
#[cfg(feature = "once")]
#[derive(QueryableByName)]
pub(crate) struct StoredRow {
    #[diesel(sql_type = Text)]
    result: String,
    #[diesel(sql_type = Nullable<Binary>)]
    arguments: Option<Vec<u8>>,
}

#[cfg(feature = "once")]
impl From<StoredRow> for crate::Stored {
    fn from(StoredRow { result, arguments }: StoredRow) -> Self {
        crate::Stored { result, arguments }
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

/// The meaning of an assertion's error. Diesel does not report its SQLSTATE: it is known by its message.
#[cfg(any(feature = "diesel-postgres", feature = "diesel-async-postgres"))]
pub(crate) fn of_assertion(fence: &Fence, error: Error) -> FenceError {
    let not_held = format!("distlock: `{}` is not held with fencing token {}", fence.key(), fence.token());
    let is_not_held = matches!(&error, Error::DatabaseError(_, about) if about.message() == not_held);
    asserted(is_not_held.then_some(NOT_HELD), fence, error)
}

/// Whether the next commit ends the transaction itself, and not a savepoint that the body has left behind (a panic that
/// it caught, a future that it dropped). If the transaction has already ended, its statements may have been committed.
pub(crate) fn is_outermost(status: &TransactionManagerStatus, fence: &Fence) -> Result<(), FenceError> {
    let depth = status.transaction_depth().map_err(|error| FenceError::not_committed(fence, error))?;
    match depth.map(NonZeroU32::get) {
        Some(1) => Ok(()),
        Some(_) => Err(FenceError::not_committed(fence, Error::AlreadyInTransaction)),
        None => Err(FenceError::outcome_unknown(fence, Error::NotInTransaction)),
    }
}

/// The connections differ in what the database needs. What each statement needs of a connection would be a long list if
/// the connection were a parameter.
#[cfg(any(feature = "diesel-postgres", feature = "diesel-sqlite"))]
macro_rules! fenced_connection {
    ($connection:ty, make: $make:expr, once: $once:expr $(, mark: $mark:expr, still_open: $still_open:expr)?
     $(, still_good: $still_good:expr)?) => {
        impl crate::blocking::FencedConnection for $connection {
            fn begin(&mut self, fence: &Fence) -> Result<(), FenceError> {
                let failed = |error| FenceError::not_committed(fence, error);
                let status = AnsiTransactionManager::transaction_manager_status_mut(self);
                if status.transaction_depth().map_err(failed)?.is_some() {
                    return Err(failed(Error::AlreadyInTransaction));
                }
                AnsiTransactionManager::begin_transaction(self).map_err(failed)
            }

            fn fence(&mut self, fence: &Fence) -> Result<(), FenceError> {
                let failed = |error| FenceError::not_committed(fence, error);
                $(self.batch_execute($mark).map_err(failed)?;)?
                let raise = sql_query(statements::CHECK).bind::<Text, _>(fence.key());
                let raise = raise.bind::<BigInt, _>(signed(fence)?);
                if raise.get_result::<Row>(self).optional().map_err(failed)?.is_some() {
                    return Ok(());
                }
                let newest = sql_query(statements::NEWEST).bind::<Text, _>(fence.key());
                let newest = newest.get_result::<Row>(self).map_err(failed)?;
                Err(FenceError::stale(fence, newest.token.unsigned_abs()))
            }

            fn commit(&mut self, fence: &Fence) -> Result<(), FenceError> {
                $(
                    // First the mark: if it is gone, statements may have been committed, also in front of a savepoint
                    // that the body has left behind.
                    let open = self.batch_execute($still_open);
                    open.map_err(|error| FenceError::outcome_unknown(fence, error))?;
                )?
                is_outermost(AnsiTransactionManager::transaction_manager_status_mut(self), fence)?;
                $(
                    let good = self.batch_execute($still_good);
                    good.map_err(|error| FenceError::not_committed(fence, error))?;
                )?
                // If it fails, diesel rolls back, or gives the connection up.
                AnsiTransactionManager::commit_transaction(self)
                    .map_err(|error| FenceError::of_commit(fence, is_refusal(&error), error))
            }

            fn roll_back(&mut self) {
                // A body that panics may leave savepoints in front, even one that is gone: each call is one level less.
                // If the last one fails, there is no transaction, or diesel gives the connection up.
                while let Ok(Some(_)) =
                    AnsiTransactionManager::transaction_manager_status_mut(self).transaction_depth()
                {
                    drop(AnsiTransactionManager::rollback_transaction(self));
                }
            }

            fn migrate(&mut self) -> Result<(), Box<dyn error::Error + Send + Sync>> {
                Ok(self.batch_execute($make)?)
            }
        }

        #[cfg(feature = "once")]
        impl crate::blocking::OnceConnection for $connection {
            fn find(&mut self, fence: &Fence) -> Result<Option<crate::Stored>, FenceError> {
                let find = sql_query($once.find).bind::<Text, _>(fence.key());
                let found = find.get_result::<StoredRow>(self).optional();
                found.map(|row| row.map(Into::into)).map_err(|error| FenceError::not_committed(fence, error))
            }

            fn store(
                &mut self,
                fence: &Fence,
                stored: &crate::Stored,
                keep: std::time::Duration,
            ) -> Result<(), FenceError> {
                $(
                    let open = self.batch_execute($still_open);
                    open.map_err(|error| FenceError::outcome_unknown(fence, error))?;
                )?
                is_outermost(AnsiTransactionManager::transaction_manager_status_mut(self), fence)?;
                let store = sql_query($once.store)
                    .bind::<Text, _>(fence.key())
                    .bind::<Text, _>(&stored.result)
                    .bind::<Nullable<Binary>, _>(stored.arguments.as_deref())
                    .bind::<BigInt, _>(signed(fence)?)
                    .bind::<BigInt, _>(crate::once_statements::millis(keep));
                crate::once_statements::stored(store.execute(self), fence)
            }

            fn prune(&mut self) -> Result<u64, Box<dyn error::Error + Send + Sync>> {
                Ok(u64::try_from(sql_query($once.prune).execute(self)?)?)
            }
        }
    };
}

#[cfg(any(feature = "diesel-postgres", feature = "diesel-sqlite"))]
mod blocking {
    use std::error;

    use diesel::connection::{AnsiTransactionManager, SimpleConnection, TransactionManager};
    use diesel::result::Error;
    use diesel::sql_types::{BigInt, Text};
    #[cfg(feature = "once")]
    use diesel::sql_types::{Binary, Nullable};
    use diesel::{OptionalExtension, RunQueryDsl, sql_query};

    #[cfg(feature = "once")]
    use super::StoredRow;
    use super::{Row, is_outermost, is_refusal};
    use crate::{Fence, FenceError, signed, statements};

    #[cfg(feature = "diesel-postgres")]
    fenced_connection!(
        diesel::PgConnection,
        make: statements::MAKE_IN_POSTGRES,
        once: crate::once_statements::POSTGRES,
        still_good: statements::STILL_GOOD
    );
    #[cfg(feature = "diesel-postgres")]
    impl crate::blocking::AssertHeld for diesel::PgConnection {
        fn assert_held(&mut self, statement: &str, fence: &Fence) -> Result<(), FenceError> {
            let assert = sql_query(statement).bind::<Text, _>(fence.key()).bind::<BigInt, _>(signed(fence)?);
            assert.execute(self).map(drop).map_err(|error| super::of_assertion(fence, error))
        }
    }

    #[cfg(feature = "diesel-sqlite")]
    fenced_connection!(
        diesel::SqliteConnection,
        make: crate::schema::SQLITE,
        once: crate::once_statements::SQLITE,
        mark: statements::MARK,
        still_open: statements::STILL_OPEN
    );
}
