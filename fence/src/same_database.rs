//! Data in the same PostgreSQL database as the lock.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};

use crate::{Fence, FenceError, FencedDatabase};

/// A PostgreSQL database that also keeps the locks (`postgres://`). Its transactions check the lock itself, by the
/// store's function `assert_held_1`, and then the table `distlock_fence`.
///
/// This check is stricter than that of the table alone. If the lock was released, or granted to another process, the
/// holder is refused with [`FenceError::NotHeld`], even if no later holder has committed. (A lease that has expired is
/// accepted until the lock is granted again.) From the check to the end of the transaction, no other process gets the
/// lock, even if the lease expires.
///
/// The table orders the transactions of one process. A process may hand its lease from one task to the next without a
/// command to the server, so the lock accepts the tokens of both. The later transaction waits for the earlier one, and
/// the earlier holder is then refused with [`FenceError::Stale`].
///
/// It dereferences to the pool. If the locks are in another database, every transaction fails, because the function is
/// missing, or because the lock is not held there. Without the table `distlock_fence`, every transaction fails, too:
/// call [`migrate`](crate::migrate) once. The role needs `USAGE` on the schema of the locks and `SELECT, UPDATE` on the
/// table `lock_1`, and `SELECT, INSERT, UPDATE` on `distlock_fence`.
///
/// ```
/// # #[cfg(feature = "sqlx-postgres")] mod example {
/// use distlock_fence::{Fence, FenceError, SameDatabase, transaction};
/// use sqlx::PgPool;
/// # #[derive(Debug)] enum RedeemError { Fence(FenceError), Database(sqlx::Error) }
/// # impl From<FenceError> for RedeemError { fn from(error: FenceError) -> Self { RedeemError::Fence(error) } }
/// # impl From<sqlx::Error> for RedeemError { fn from(error: sqlx::Error) -> Self { RedeemError::Database(error) } }
///
/// async fn redeem(pool: &SameDatabase<PgPool>, fence: &Fence, user: i64, price: i64) -> Result<(), RedeemError> {
///     transaction(fence, pool, async |tx| {
///         let sql = "UPDATE account SET points = points - $1 WHERE id = $2";
///         sqlx::query(sql).bind(price).bind(user).execute(tx).await?;
///         Ok(())
///     })
///     .await
/// }
///
/// fn open(url: &str) -> Result<SameDatabase<PgPool>, sqlx::Error> {
///     Ok(SameDatabase::new(PgPool::connect_lazy(url)?))
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct SameDatabase<D> {
    pub(crate) database: D,
    pub(crate) assert: String,
}

impl<D> SameDatabase<D> {
    /// For locks in the schema `distlock`, which is the default of the store's URL.
    pub fn new(database: D) -> Self {
        Self::in_schema(database, "distlock")
    }

    /// For locks in this schema (`schema=` in the store's URL).
    pub fn in_schema(database: D, schema: &str) -> Self {
        let schema = schema.replace('"', "\"\"");
        SameDatabase { database, assert: format!("SELECT \"{schema}\".assert_held_1($1, $2)") }
    }
}

/// A database of PostgreSQL that can be a [`SameDatabase`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot check the locks",
    note = "`SameDatabase` is for pools of PostgreSQL: turn on a feature of distlock-fence like `sqlx-postgres`"
)]
pub trait AssertHeld: FencedDatabase {
    /// Runs this statement, whose parameters are the key and the token.
    ///
    /// # Errors
    /// [`FenceError::NotHeld`] if it fails with SQLSTATE [`NOT_HELD`]; [`FenceError::NotCommitted`] otherwise.
    fn assert_held(
        transaction: &mut Self::Transaction,
        statement: &str,
        fence: &Fence,
    ) -> impl Future<Output = Result<(), FenceError>> + Send;

    /// [`assert_held`](AssertHeld::assert_held), and then [`fence`](FencedDatabase::fence), which orders the holders of
    /// one lease. If the library allows it, the second statement is sent before the reply to the first one has arrived.
    ///
    /// # Errors
    /// The errors of both.
    fn assert_and_fence(
        &self,
        transaction: &mut Self::Transaction,
        statement: &str,
        fence: &Fence,
    ) -> impl Future<Output = Result<(), FenceError>> + Send {
        async move {
            Self::assert_held(transaction, statement, fence).await?;
            self.fence(transaction, fence).await
        }
    }
}

/// The SQLSTATE with which `assert_held_1` fails.
pub const NOT_HELD: &str = "DL002";

/// The meaning of an assertion's error.
pub(crate) fn asserted(
    sqlstate: Option<&str>,
    fence: &Fence,
    error: impl Into<Box<dyn Error + Send + Sync>>,
) -> FenceError {
    if sqlstate == Some(NOT_HELD) {
        FenceError::not_held(fence)
    } else {
        FenceError::not_committed(fence, error)
    }
}

impl<D: AssertHeld + Send + Sync> FencedDatabase for SameDatabase<D> {
    type Connection = D::Connection;
    type Transaction = D::Transaction;

    async fn begin(&self, fence: &Fence) -> Result<Self::Transaction, FenceError> {
        self.database.begin(fence).await
    }

    async fn fence(&self, transaction: &mut Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
        self.database.assert_and_fence(transaction, &self.assert, fence).await
    }

    async fn commit(transaction: Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
        D::commit(transaction, fence).await
    }

    async fn roll_back(transaction: Self::Transaction) {
        D::roll_back(transaction).await;
    }

    async fn migrate(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.database.migrate().await
    }
}

#[cfg(feature = "once")]
crate::database::once_behind!(SameDatabase<D>, AssertHeld);

impl<D> Deref for SameDatabase<D> {
    type Target = D;

    fn deref(&self) -> &D {
        &self.database
    }
}

impl<D> DerefMut for SameDatabase<D> {
    fn deref_mut(&mut self) -> &mut D {
        &mut self.database
    }
}

impl<D> fmt::Debug for SameDatabase<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SameDatabase").finish_non_exhaustive()
    }
}
