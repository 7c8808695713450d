//! Results of runs in the pools of `sqlx`. The statements differ in how they say what time it is.

use std::error::Error;
use std::time::Duration;

use crate::{Fence, FenceError, OnceDatabase, Stored, signed};

/// Longer is as good as for ever, and no sum with it is too large for a database.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

fn millis(keep: Duration) -> i64 {
    i64::try_from(keep.min(LONGEST).as_millis()).unwrap_or(i64::MAX)
}

macro_rules! once_database {
    ($pool:ty, $key:expr, $find:expr, $store:expr, $prune:expr) => {
        impl OnceDatabase for $pool {
            async fn find(&self, fence: &Fence) -> Result<Option<Stored>, FenceError> {
                let row = sqlx::query_as::<_, (String, Option<Vec<u8>>)>($find).bind($key(fence));
                let row = row.fetch_optional(self).await;
                let row = row.map_err(|error| FenceError::not_committed(fence, error))?;
                Ok(row.map(|(result, arguments)| Stored { result, arguments }))
            }

            async fn find_in(
                transaction: &mut Self::Transaction,
                fence: &Fence,
            ) -> Result<Option<Stored>, FenceError> {
                let row = sqlx::query_as::<_, (String, Option<Vec<u8>>)>($find).bind($key(fence));
                let row = row.fetch_optional(&mut **transaction).await;
                let row = row.map_err(|error| FenceError::not_committed(fence, error))?;
                Ok(row.map(|(result, arguments)| Stored { result, arguments }))
            }

            async fn store(
                transaction: &mut Self::Transaction,
                fence: &Fence,
                stored: &Stored,
                keep: Duration,
            ) -> Result<(), FenceError> {
                let query = sqlx::query($store).bind($key(fence)).bind(&stored.result);
                let query = query.bind(stored.arguments.as_deref()).bind(signed(fence)?).bind(millis(keep));
                match query.execute(&mut **transaction).await {
                    Ok(_) => Ok(()),
                    Err(error) => Err(FenceError::not_committed(fence, error)),
                }
            }

            async fn prune(&self) -> Result<u64, Box<dyn Error + Send + Sync>> {
                Ok(sqlx::query($prune).execute(self).await?.rows_affected())
            }
        }
    };
}

/// The statements, with `now` as milliseconds since 1970.
macro_rules! standard {
    ($pool:ty, $now:literal) => {
        once_database!(
            $pool,
            |fence: &Fence| fence.key().to_owned(),
            concat!("SELECT result, arguments FROM distlock_once WHERE key = $1 AND expires > ", $now),
            concat!(
                "INSERT INTO distlock_once (key, result, arguments, token, expires) VALUES ($1, $2, $3, $4, $5 + ",
                $now,
                ") ON CONFLICT (key) DO UPDATE SET result = excluded.result, arguments = excluded.arguments, \
                 token = excluded.token, expires = excluded.expires"
            ),
            concat!("DELETE FROM distlock_once WHERE expires <= ", $now)
        );
    };
}

#[cfg(feature = "sqlx-postgres")]
standard!(sqlx::PgPool, "(extract(epoch FROM clock_timestamp()) * 1000)::bigint");

#[cfg(feature = "sqlx-sqlite")]
standard!(sqlx::SqlitePool, "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)");

#[cfg(feature = "sqlx-mysql")]
once_database!(
    sqlx::MySqlPool,
    |fence: &Fence| fence.key().as_bytes().to_vec(),
    "SELECT result, arguments FROM distlock_once \
     WHERE `key` = ? AND expires > CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)",
    "REPLACE INTO distlock_once (`key`, result, arguments, token, expires) \
     VALUES (?, ?, ?, ?, ? + CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED))",
    "DELETE FROM distlock_once WHERE expires <= CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)"
);
