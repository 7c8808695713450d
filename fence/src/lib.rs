//! Fencing in the database. A lock cannot stop a holder that was paused past its lease, and that writes when it
//! resumes. The database can: it stores the largest fencing token of each key, and refuses smaller ones.
//!
//! ```
//! # #[cfg(feature = "sqlx-postgres")] mod example {
//! use distlock_fence::{Fence, FenceError, transaction};
//! use sqlx::PgPool;
//!
//! #[derive(Debug)]
//! enum RedeemError {
//!     Fence(FenceError),
//!     Database(sqlx::Error),
//! }
//! # impl From<FenceError> for RedeemError { fn from(error: FenceError) -> Self { RedeemError::Fence(error) } }
//! # impl From<sqlx::Error> for RedeemError { fn from(error: sqlx::Error) -> Self { RedeemError::Database(error) } }
//!
//! /// `fence` comes from the holder of the lock.
//! async fn redeem(pool: &PgPool, fence: &Fence, user: i64, price: i64) -> Result<(), RedeemError> {
//!     transaction(fence, pool, async |tx| {
//!         let sql = "UPDATE account SET points = points - $1 WHERE id = $2";
//!         sqlx::query(sql).bind(price).bind(user).execute(tx).await?;
//!         Ok(())
//!     })
//!     .await
//! }
//! # }
//! ```
//!
//! | library | feature | call |
//! |---|---|---|
//! | `sqlx` | `sqlx-postgres`, `sqlx-mysql`, `sqlx-sqlite` | `transaction(&fence, &pool, async \|tx\| …)` |
//! | `mysql_async` | `mysql-async` | the same, with its `Pool` |
//! | `sea-orm` | `sea-orm-postgres`, `sea-orm-mysql`, `sea-orm-sqlite` | the same, with its `DatabaseConnection` |
//! | `deadpool-postgres` | `deadpool-postgres` | the same, with its `Pool` |
//! | `diesel-async` | `diesel-async-postgres` | the same, with its `Pool` of `deadpool` |
//! | | | `diesel_async::transaction(&fence, &mut connection, async \|connection\| …)` |
//! | `tokio-postgres` | `tokio-postgres` | `tokio_postgres::transaction(&fence, &mut client, async \|tx\| …)` |
//! | `diesel` | `diesel-postgres`, `diesel-sqlite` | `blocking::transaction(&fence, &mut connection, \|connection\| …)` |
//! | `rusqlite` | `rusqlite` | the same |
//!
//! A transaction on a single connection works with a connection of any pool. MySQL means MariaDB, too: it is tested on
//! MariaDB 10.11, and not on MySQL itself.
//!
//! If PostgreSQL keeps the data and the locks, `SameDatabase::new(pool)` is a database that checks the lock, too.
//! (For `diesel`, whose connections block, use it with `blocking::transaction_in` and `blocking::once_in`.)
//!
//! The crate locks nothing, and does not depend on a lock library, so a service can check a [`Fence`] that another
//! service has sent. It needs the table `distlock_fence`: call [`migrate`], or use [`schema`] in your own migrations.
//! All writers must use the same text for the same key, because different texts are different keys.
//!
//! # Rows stay
//! A row of `distlock_fence` (and its key in Redis) may be deleted only if no process and no message has a fence of its
//! key with a smaller token, because such a holder would then be accepted. No waiting time guarantees this, because a
//! process may be paused for any time. So nothing in this crate deletes rows. A row has about 100 bytes. Deletion is
//! safe in three cases:
//!
//! - The lock is in Redis or SQLite, whose tokens are not below the microseconds since 1970 at their acquisition. If
//!   every process that acquires locks was started after some moment, and no older message with a fence is left, then
//!   the rows below that moment can be deleted: `DELETE FROM distlock_fence WHERE token < 1790000000000000`. The other
//!   stores count their tokens, so a number does not indicate the time.
//! - All processes are stopped, and no message with a fence is left. Then the whole table can be emptied.
//! - Each key belongs to one request that runs once, no process is paused for longer than its result is kept, and no
//!   message with a fence is older. Then the rows of expired results can be deleted, before `prune` deletes the
//!   results. On PostgreSQL (the book has the
//!   [other databases](https://github.com/distlock/distlock/blob/main/docs/book/src/with-a-database.md)):
//!
//!   ```text
//!   DELETE FROM distlock_fence WHERE EXISTS (
//!       SELECT 1 FROM distlock_once
//!       WHERE distlock_once.key = distlock_fence.key
//!       AND distlock_once.token >= distlock_fence.token
//!       AND distlock_once.expires <= (extract(epoch FROM statement_timestamp()) * 1000)::bigint
//!   );
//!   ```
//!
//! # Once
//! With the feature `once`, the function `once` stores the result of a body in the transaction of its effects, in the
//! table `distlock_once`. A repeated request gets this result, and the body does not run again.
//!
//! # Isolation levels
//! The check is the first statement of the transaction, so the body reads no data that is older than the check. On
//! PostgreSQL, a transaction at `REPEATABLE READ` or `SERIALIZABLE` fails with SQLSTATE 40001
//! ([`FenceError::NotCommitted`]) if it had to wait for another transaction of its key. It can be retried. At
//! `READ COMMITTED`, it continues after the wait. On MySQL, it continues at every level, but do not use `once` at
//! `SERIALIZABLE`: two first runs of different keys may deadlock there, and one of them fails. SQLite has one writer at
//! a time. A transaction that waits for longer than the pool's `busy_timeout` fails.

#[cfg(any(feature = "deadpool-postgres", feature = "mysql-async", feature = "__sea-orm"))]
mod begun;
pub mod blocking;
#[cfg(any(feature = "sqlx-mysql", feature = "sqlx-postgres"))]
mod completed;
mod database;
#[cfg(feature = "deadpool-postgres")]
pub mod deadpool_postgres;
#[cfg(feature = "__diesel")]
mod diesel;
#[cfg(feature = "diesel-async-postgres")]
pub mod diesel_async;
mod error;
mod fence;
#[cfg(feature = "http")]
pub mod header;
#[cfg(feature = "mysql-async")]
pub mod mysql_async;
#[cfg(feature = "tower")]
mod newest;
#[cfg(feature = "once")]
mod once;
#[cfg(feature = "once")]
#[allow(
    dead_code,
    unused_macros,
    unused_macro_rules,
    reason = "each database needs some of it, tokio-postgres alone nothing"
)]
mod once_statements;
#[cfg(feature = "__deadpool")]
mod pooled;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "rusqlite")]
mod rusqlite;
#[cfg(feature = "__same-database")]
mod same_database;
pub mod schema;
#[cfg(feature = "__sea-orm")]
mod sea_orm;
#[cfg(any(feature = "sqlx-postgres", feature = "sqlx-sqlite"))]
mod sqlx_check;
#[cfg(feature = "sqlx-mysql")]
mod sqlx_mysql;
#[cfg(all(
    feature = "once",
    any(feature = "sqlx-mysql", feature = "sqlx-postgres", feature = "sqlx-sqlite")
))]
mod sqlx_once;
#[cfg(feature = "sqlx-postgres")]
mod sqlx_postgres;
#[cfg(feature = "sqlx-sqlite")]
mod sqlx_sqlite;
#[cfg(any(feature = "__mysql", feature = "__postgres", feature = "__sqlite"))]
mod statements;
#[cfg(feature = "tokio-postgres")]
pub mod tokio_postgres;
#[cfg(feature = "tower")]
pub mod tower;
mod transaction;

pub use database::{FencedDatabase, migrate};
pub use error::{FenceError, MAX_RESULT};
pub use fence::{Fence, ParseFenceError};
#[cfg(feature = "once")]
pub use once::{Done, FirstRun, Once, OnceDatabase, Outcome, Run, Stored, once, prune};
#[cfg(feature = "__same-database")]
pub use same_database::{AssertHeld, NOT_HELD, SameDatabase};
pub use transaction::{FencedTransaction, transaction};

/// The token as a signed number, for databases.
#[cfg(any(feature = "__mysql", feature = "__postgres", feature = "__sqlite"))]
fn signed(fence: &Fence) -> Result<i64, FenceError> {
    // A number that was cut to the largest one would pass for every number above it.
    i64::try_from(fence.token()).map_err(|error| FenceError::not_committed(fence, error))
}
