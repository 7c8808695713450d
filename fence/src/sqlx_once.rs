//! Results of runs in the pools of `sqlx`. The statements differ in how they say what time it is.

use std::error::Error;
use std::time::Duration;

use crate::{Fence, FenceError, OnceDatabase, Stored, signed};

/// Longer is as good as for ever, and no sum with it is too large for a database.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

fn millis(keep: Duration) -> i64 {
    i64::try_from(keep.min(LONGEST).as_millis()).unwrap_or(i64::MAX)
}

type Row = (String, Option<Vec<u8>>);

fn stored(found: Result<Option<Row>, sqlx::Error>, fence: &Fence) -> Result<Option<Stored>, FenceError> {
    let row = found.map_err(|error| FenceError::not_committed(fence, error))?;
    Ok(row.map(|(result, arguments)| Stored { result, arguments }))
}

/// `key`: as the column has it. `now`: milliseconds since 1970. `store`, `now` and `behind` are one statement.
macro_rules! once_database {
    ($pool:ty, key: $key:expr, now: $now:literal, find: $find:literal, store: $store:literal, behind: $behind:literal) => {
        impl OnceDatabase for $pool {
            async fn find(&self, fence: &Fence) -> Result<Option<Stored>, FenceError> {
                let query = sqlx::query_as(concat!($find, $now)).bind($key(fence));
                stored(query.fetch_optional(self).await, fence)
            }

            async fn find_in(
                transaction: &mut Self::Transaction,
                fence: &Fence,
            ) -> Result<Option<Stored>, FenceError> {
                let query = sqlx::query_as(concat!($find, $now)).bind($key(fence));
                stored(query.fetch_optional(&mut **transaction).await, fence)
            }

            async fn store(
                transaction: &mut Self::Transaction,
                fence: &Fence,
                stored: &Stored,
                keep: Duration,
            ) -> Result<(), FenceError> {
                let query =
                    sqlx::query(concat!($store, $now, $behind)).bind($key(fence)).bind(&stored.result);
                let query = query.bind(stored.arguments.as_deref()).bind(signed(fence)?).bind(millis(keep));
                match query.execute(&mut **transaction).await {
                    Ok(_) => Ok(()),
                    Err(error) => Err(FenceError::not_committed(fence, error)),
                }
            }

            async fn prune(&self) -> Result<u64, Box<dyn Error + Send + Sync>> {
                let prune = concat!("DELETE FROM distlock_once WHERE expires <= ", $now);
                Ok(sqlx::query(prune).execute(self).await?.rows_affected())
            }
        }
    };
}

macro_rules! standard {
    ($pool:ty, $now:literal) => {
        once_database!(
            $pool,
            key: Fence::key,
            now: $now,
            find: "SELECT result, arguments FROM distlock_once WHERE key = $1 AND expires > ",
            store: "INSERT INTO distlock_once (key, result, arguments, token, expires) VALUES ($1, $2, $3, $4, $5 + ",
            behind: ") ON CONFLICT (key) DO UPDATE SET result = excluded.result, arguments = excluded.arguments, \
                     token = excluded.token, expires = excluded.expires"
        );
    };
}

#[cfg(feature = "sqlx-postgres")]
standard!(sqlx::PgPool, "(extract(epoch FROM clock_timestamp()) * 1000)::bigint");

#[cfg(feature = "sqlx-sqlite")]
standard!(sqlx::SqlitePool, "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)");

/// The column is binary.
#[cfg(feature = "sqlx-mysql")]
fn bytes(fence: &Fence) -> &[u8] {
    fence.key().as_bytes()
}

#[cfg(feature = "sqlx-mysql")]
once_database!(
    sqlx::MySqlPool,
    key: bytes,
    now: "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)",
    find: "SELECT result, arguments FROM distlock_once WHERE `key` = ? AND expires > ",
    store: "REPLACE INTO distlock_once (`key`, result, arguments, token, expires) VALUES (?, ?, ?, ?, ? + ",
    behind: ")"
);
