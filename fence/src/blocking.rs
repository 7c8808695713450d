//! Connections of libraries that block a thread: `diesel` and `rusqlite`. Inside an async function call these functions
//! in `spawn_blocking`.
//!
//! ```
//! # #[cfg(feature = "rusqlite")] mod example {
//! use distlock_fence::{Fence, FenceError, blocking};
//! # #[derive(Debug)] enum RedeemError { Fence(FenceError), Database(rusqlite::Error) }
//! # impl From<FenceError> for RedeemError { fn from(error: FenceError) -> Self { RedeemError::Fence(error) } }
//! # impl From<rusqlite::Error> for RedeemError {
//! #     fn from(error: rusqlite::Error) -> Self { RedeemError::Database(error) }
//! # }
//!
//! fn redeem(
//!     connection: &mut rusqlite::Connection,
//!     fence: &Fence,
//!     user: i64,
//!     price: i64,
//! ) -> Result<(), RedeemError> {
//!     blocking::transaction(fence, connection, |connection| {
//!         connection.execute("UPDATE account SET points = points - ?1 WHERE id = ?2", [price, user])?;
//!         Ok(())
//!     })
//! }
//! # }
//! ```

use std::error::Error;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(feature = "once")]
use serde::{Serialize, de::DeserializeOwned};

#[cfg(feature = "once")]
use crate::{Done, Once, Outcome, Stored};
use crate::{Fence, FenceError};

/// A blocking connection that supports fenced transactions.
///
/// Implemented for `PgConnection` and `SqliteConnection` of `diesel`, and for `Connection` of `rusqlite`. Pass a
/// connection of a pool as `&mut *connection`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a connection whose transactions can be fenced",
    label = "expected a connection",
    note = "turn on the feature of distlock-fence for it, like `rusqlite`; give a connection of a pool as `&mut *connection`"
)]
pub trait FencedConnection {
    /// Begins a transaction.
    ///
    /// # Errors
    /// [`FenceError::NotCommitted`] if the database fails, or if a transaction is open already, because its changes
    /// would be committed later, or never.
    fn begin(&mut self, fence: &Fence) -> Result<(), FenceError>;

    /// Raises the stored token of the key to the token of `fence`. Other transactions of this key wait until this one
    /// ends.
    ///
    /// # Errors
    /// [`FenceError::Stale`] if a larger token is stored; [`FenceError::NotCommitted`] if the database fails.
    fn fence(&mut self, fence: &Fence) -> Result<(), FenceError>;

    /// Commits.
    ///
    /// # Errors
    /// [`FenceError::NotCommitted`] only if it is certain that nothing was committed. Otherwise
    /// [`FenceError::OutcomeUnknown`].
    fn commit(&mut self, fence: &Fence) -> Result<(), FenceError>;

    /// Rolls back the transaction, if it is still open.
    fn roll_back(&mut self);

    /// Creates the tables `distlock_fence` and `distlock_once`, if they do not exist.
    ///
    /// # Errors
    /// The error of the database.
    fn migrate(&mut self) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// [`transaction`](crate::transaction) on a connection: the same order, the same promises, the same errors.
///
/// # Errors
/// The errors of `body`, and every [`FenceError`].
pub fn transaction<C, T, E, F>(fence: &Fence, connection: &mut C, body: F) -> Result<T, E>
where
    C: FencedConnection,
    E: From<FenceError>,
    F: FnOnce(&mut C) -> Result<T, E>,
{
    transact(fence, connection, C::fence, body)
}

/// [`transaction`] on a connection of a pool, or in a `Mutex`.
///
/// # Errors
/// The errors of `body`, and every [`FenceError`].
pub fn transaction_in<P, T, E, F>(fence: &Fence, connections: &P, body: F) -> Result<T, E>
where
    P: Connections,
    E: From<FenceError>,
    F: FnOnce(&mut P::Connection) -> Result<T, E>,
{
    let mut connection = connections.connection(fence)?;
    transact(fence, &mut *connection, |connection, fence| connections.fence(connection, fence), body)
}

fn transact<C, T, E>(
    fence: &Fence,
    connection: &mut C,
    check: impl FnOnce(&mut C, &Fence) -> Result<(), FenceError>,
    body: impl FnOnce(&mut C) -> Result<T, E>,
) -> Result<T, E>
where
    C: FencedConnection,
    E: From<FenceError>,
{
    let open = OpenTransaction::begin(fence, connection, check)?;
    let value = body(open.connection)?;
    open.commit(fence)?;
    Ok(value)
}

/// Creates the tables `distlock_fence` and `distlock_once`, if they do not exist.
///
/// # Errors
/// The error of the database.
pub fn migrate<C: FencedConnection>(connection: &mut C) -> Result<(), Box<dyn Error + Send + Sync>> {
    connection.migrate()
}

/// A transaction, which is rolled back when it is dropped.
struct OpenTransaction<'c, C: FencedConnection> {
    connection: &'c mut C,
    is_open: bool,
}

impl<'c, C: FencedConnection> OpenTransaction<'c, C> {
    fn begin(
        fence: &Fence,
        connection: &'c mut C,
        check: impl FnOnce(&mut C, &Fence) -> Result<(), FenceError>,
    ) -> Result<Self, FenceError> {
        connection.begin(fence)?;
        let open = OpenTransaction { connection, is_open: true };
        check(open.connection, fence)?;
        Ok(open)
    }

    fn commit(mut self, fence: &Fence) -> Result<(), FenceError> {
        self.connection.commit(fence)?;
        self.is_open = false;
        Ok(())
    }
}

impl<C: FencedConnection> Drop for OpenTransaction<'_, C> {
    fn drop(&mut self) {
        if self.is_open {
            self.connection.roll_back();
        }
    }
}

/// The connections of a program: a pool of `r2d2` (with the feature of that name), or one connection in a [`Mutex`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no connections whose transactions can be fenced",
    note = "it may be a `Mutex` with a connection of `diesel` or `rusqlite`, or with the feature `r2d2` a pool of them"
)]
pub trait Connections {
    /// The type of its connections.
    type Connection: FencedConnection;

    /// A borrowed connection. It is returned when it is dropped.
    type Lent<'c>: DerefMut<Target = Self::Connection>
    where
        Self: 'c;

    /// Borrows a connection as soon as one is free.
    ///
    /// # Errors
    /// [`FenceError::NotCommitted`] if no connection is available.
    fn connection(&self, fence: &Fence) -> Result<Self::Lent<'_>, FenceError>;

    /// Checks a fence in a transaction that was begun on one of the connections. (A `SameDatabase` checks the lock
    /// first.)
    ///
    /// # Errors
    /// The errors of [`FencedConnection::fence`].
    fn fence(&self, connection: &mut Self::Connection, fence: &Fence) -> Result<(), FenceError> {
        connection.fence(fence)
    }
}

/// A connection to PostgreSQL that can check a lock in the same database.
#[cfg(feature = "diesel-postgres")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot check the locks",
    note = "`SameDatabase` is for connections to PostgreSQL, like `diesel::PgConnection`"
)]
pub trait AssertHeld: FencedConnection {
    /// Runs this statement. Its parameters are the key and the token.
    ///
    /// # Errors
    /// [`FenceError::NotHeld`] if it fails because the lock is not held; [`FenceError::NotCommitted`] otherwise.
    fn assert_held(&mut self, statement: &str, fence: &Fence) -> Result<(), FenceError>;
}

#[cfg(feature = "diesel-postgres")]
impl<P: Connections<Connection: AssertHeld>> Connections for crate::SameDatabase<P> {
    type Connection = P::Connection;
    type Lent<'c>
        = P::Lent<'c>
    where
        Self: 'c;

    fn connection(&self, fence: &Fence) -> Result<Self::Lent<'_>, FenceError> {
        self.database.connection(fence)
    }

    fn fence(&self, connection: &mut Self::Connection, fence: &Fence) -> Result<(), FenceError> {
        connection.assert_held(&self.assert, fence)?;
        // The lock does not order the holders of one lease, which a process hands from the one to the other.
        self.database.fence(connection, fence)
    }
}

impl<C: FencedConnection> Connections for Mutex<C> {
    type Connection = C;
    type Lent<'c>
        = MutexGuard<'c, C>
    where
        C: 'c;

    fn connection(&self, _: &Fence) -> Result<Self::Lent<'_>, FenceError> {
        // A transaction that panicked was rolled back.
        Ok(self.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(feature = "r2d2")]
impl<M: r2d2::ManageConnection<Connection: FencedConnection>> Connections for r2d2::Pool<M> {
    type Connection = M::Connection;
    type Lent<'c> = r2d2::PooledConnection<M>;

    fn connection(&self, fence: &Fence) -> Result<Self::Lent<'_>, FenceError> {
        self.get().map_err(|error| FenceError::not_committed(fence, error))
    }
}

/// Connections behind a pointer to them.
macro_rules! behind_pointer {
    ($pointer:ty) => {
        #[diagnostic::do_not_recommend]
        impl<D: Connections> Connections for $pointer {
            type Connection = D::Connection;
            type Lent<'c>
                = D::Lent<'c>
            where
                Self: 'c;

            fn connection(&self, fence: &Fence) -> Result<Self::Lent<'_>, FenceError> {
                D::connection(self.deref(), fence)
            }

            fn fence(&self, connection: &mut Self::Connection, fence: &Fence) -> Result<(), FenceError> {
                D::fence(self.deref(), connection, fence)
            }
        }
    };
}

behind_pointer!(&D);
behind_pointer!(Arc<D>);

/// A connection that stores the results of runs. Implemented for the same types as [`FencedConnection`].
#[cfg(feature = "once")]
pub trait OnceConnection: FencedConnection {
    /// The stored result of the key. `None` if there is none, or if it has expired by the clock of the database.
    ///
    /// # Errors
    /// [`FenceError::NotCommitted`]
    fn find(&mut self, fence: &Fence) -> Result<Option<Stored>, FenceError>;

    /// Stores a result for this long. It replaces an older result.
    ///
    /// # Errors
    /// [`FenceError::NotCommitted`]; [`FenceError::OutcomeUnknown`] if the transaction has already ended.
    fn store(&mut self, fence: &Fence, stored: &Stored, keep: std::time::Duration) -> Result<(), FenceError>;

    /// Deletes expired results, and returns their number.
    ///
    /// # Errors
    /// The error of the database.
    fn prune(&mut self) -> Result<u64, Box<dyn Error + Send + Sync>>;
}

/// [`once`](crate::once()) on a connection: the same order, the same promises, the same errors.
///
/// # Errors
/// The errors of `body`, and every [`FenceError`].
#[cfg(feature = "once")]
pub fn once<C, T, E, F>(fence: &Fence, connection: &mut C, once: &Once, body: F) -> Result<Done<T>, E>
where
    C: OnceConnection,
    T: Serialize + DeserializeOwned,
    E: From<FenceError>,
    F: FnOnce(&mut C) -> Result<T, E>,
{
    run(fence, connection, C::fence, once, body)
}

/// [`once`] on a connection of a pool, or in a `Mutex`.
///
/// # Errors
/// The errors of `body`, and every [`FenceError`].
#[cfg(feature = "once")]
pub fn once_in<P, T, E, F>(fence: &Fence, connections: &P, once: &Once, body: F) -> Result<Done<T>, E>
where
    P: Connections<Connection: OnceConnection>,
    T: Serialize + DeserializeOwned,
    E: From<FenceError>,
    F: FnOnce(&mut P::Connection) -> Result<T, E>,
{
    let mut connection = connections.connection(fence)?;
    run(fence, &mut *connection, |connection, fence| connections.fence(connection, fence), once, body)
}

#[cfg(feature = "once")]
fn run<C, T, E>(
    fence: &Fence,
    connection: &mut C,
    check: impl FnOnce(&mut C, &Fence) -> Result<(), FenceError>,
    once: &Once,
    body: impl FnOnce(&mut C) -> Result<T, E>,
) -> Result<Done<T>, E>
where
    C: OnceConnection,
    T: Serialize + DeserializeOwned,
    E: From<FenceError>,
{
    let arguments = once.digest(fence)?;
    // One query, without a transaction, for requests that are repeated.
    if let Some(stored) = connection.find(fence)? {
        return Ok(stored.replay(fence, arguments.as_deref())?);
    }
    let open = OpenTransaction::begin(fence, connection, check)?;
    // An earlier holder may have committed since then: the check of the fence has waited for it.
    if let Some(stored) = open.connection.find(fence)? {
        return Ok(stored.replay(fence, arguments.as_deref())?);
    }
    let value = body(open.connection)?;
    let stored = Stored::new(&value, arguments, fence)?;
    open.connection.store(fence, &stored, once.keep())?;
    open.commit(fence)?;
    Ok(Done { value, outcome: Outcome::FirstRun })
}

/// Deletes expired results, and returns their number. Call it in a job that runs now and then.
///
/// # Errors
/// The error of the database.
#[cfg(feature = "once")]
pub fn prune<C: OnceConnection>(connection: &mut C) -> Result<u64, Box<dyn Error + Send + Sync>> {
    connection.prune()
}
