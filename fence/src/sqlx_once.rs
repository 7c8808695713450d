//! Results of runs in the pools of `sqlx`.

use std::error::Error;
use std::time::Duration;

#[cfg(any(feature = "sqlx-mysql", feature = "sqlx-sqlite"))]
use sqlx::Executor;

#[cfg(any(feature = "sqlx-mysql", feature = "sqlx-sqlite"))]
use crate::statements;
use crate::{Fence, FenceError, OnceDatabase, Stored, once_statements, signed};

type Row = (String, Option<Vec<u8>>);

fn stored(found: Result<Option<Row>, sqlx::Error>, fence: &Fence) -> Result<Option<Stored>, FenceError> {
    let row = found.map_err(|error| FenceError::not_committed(fence, error))?;
    Ok(row.map(|(result, arguments)| Stored { result, arguments }))
}

/// `key`: as the column has it. `still_open`: fails if the transaction has ended.
macro_rules! once_database {
    ($pool:ty, $key:expr, $statements:expr $(, still_open: $still_open:expr)?) => {
        impl OnceDatabase for $pool {
            async fn find(&self, fence: &Fence) -> Result<Option<Stored>, FenceError> {
                let query = sqlx::query_as($statements.find_committed).bind($key(fence));
                stored(query.fetch_optional(self).await, fence)
            }

            async fn find_in(
                &self,
                transaction: &mut Self::Transaction,
                fence: &Fence,
            ) -> Result<Option<Stored>, FenceError> {
                let query = sqlx::query_as($statements.find).bind($key(fence));
                stored(query.fetch_optional(&mut **transaction).await, fence)
            }

            async fn store(
                transaction: &mut Self::Transaction,
                fence: &Fence,
                stored: &Stored,
                keep: Duration,
            ) -> Result<(), FenceError> {
                $(
                    let open = (&mut **transaction).execute($still_open).await;
                    open.map_err(|error| FenceError::outcome_unknown(fence, error))?;
                )?
                let query = sqlx::query($statements.store).bind($key(fence)).bind(&stored.result);
                let query = query.bind(stored.arguments.as_deref()).bind(signed(fence)?);
                let stored = query.bind(once_statements::millis(keep)).execute(&mut **transaction).await;
                once_statements::stored(stored.map(|done| done.rows_affected()), fence)
            }

            async fn prune(&self) -> Result<u64, Box<dyn Error + Send + Sync>> {
                Ok(sqlx::query($statements.prune).execute(self).await?.rows_affected())
            }
        }
    };
}

#[cfg(feature = "sqlx-postgres")]
once_database!(sqlx::PgPool, Fence::key, once_statements::POSTGRES);

#[cfg(feature = "sqlx-sqlite")]
once_database!(sqlx::SqlitePool, Fence::key, once_statements::SQLITE, still_open: statements::STILL_OPEN);

/// The column is binary.
#[cfg(feature = "sqlx-mysql")]
fn bytes(fence: &Fence) -> &[u8] {
    fence.key().as_bytes()
}

#[cfg(feature = "sqlx-mysql")]
once_database!(sqlx::MySqlPool, bytes, once_statements::MYSQL, still_open: statements::STILL_OPEN);
