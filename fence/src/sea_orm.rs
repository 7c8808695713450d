//! The connections of `sea-orm` for PostgreSQL, MySQL, MariaDB and SQLite, each of which is a pool of `sqlx`.
//!
//! `sea-orm` cannot begin a transaction on a connection that was acquired before. So on PostgreSQL and MySQL, a caller
//! that is dropped while it waits for a connection keeps its place in the pool's queue, for at most `acquire_timeout`.

use std::error::Error;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, QueryResult, RuntimeErr,
    Statement, TransactionTrait, Value,
};

use crate::begun::Begun;
#[cfg(any(feature = "sea-orm-mysql", feature = "sea-orm-postgres"))]
use crate::completed::completed;
use crate::{Fence, FenceError, FencedDatabase, schema, signed, statements};

impl FencedDatabase for DatabaseConnection {
    type Connection = DatabaseTransaction;
    type Transaction = Begun<DatabaseTransaction>;

    async fn begin(&self, fence: &Fence) -> Result<Self::Transaction, FenceError> {
        let begun = match self {
            #[cfg(feature = "sea-orm-mysql")]
            DatabaseConnection::SqlxMySqlPoolConnection(pool) => {
                let pool = pool.clone();
                completed(async move { pool.begin(None, None).await }).await
            }
            #[cfg(feature = "sea-orm-postgres")]
            DatabaseConnection::SqlxPostgresPoolConnection(pool) => {
                let pool = pool.clone();
                completed(async move { pool.begin(None, None).await }).await
            }
            // On SQLite, the thread of the connection rolls back if the caller was dropped.
            _ => TransactionTrait::begin(self).await,
        };
        let begun = begun.map(|begun| Begun::new(begun, abandon));
        begun.map_err(|error| FenceError::not_committed(fence, error))
    }

    async fn fence(&self, transaction: &mut Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
        let failed = |error| FenceError::not_committed(fence, error);
        let token = signed(fence)?;
        let (transaction, key) = (&**transaction, key(&**transaction, fence));
        let newest = match transaction.get_database_backend() {
            DbBackend::MySql => {
                let raise = statements::raise_and_mark_in_mysql(fence.key(), token);
                transaction.execute_unprepared(&raise).await.map_err(failed)?;
                let newest = statement(transaction, statements::NEWEST_IN_MYSQL, [key]);
                transaction.query_one(newest).await
            }
            backend @ (DbBackend::Postgres | DbBackend::Sqlite) => {
                if backend == DbBackend::Sqlite {
                    transaction.execute_unprepared(statements::MARK).await.map_err(failed)?;
                }
                let raise = statement(transaction, statements::CHECK, [key.clone(), token.into()]);
                match transaction.query_one(raise).await {
                    Ok(None) => {
                        transaction.query_one(statement(transaction, statements::NEWEST, [key])).await
                    }
                    raised => raised,
                }
            }
        };
        let row: QueryResult = newest
            .and_then(|row| row.ok_or_else(|| DbErr::RecordNotFound("distlock_fence".to_owned())))
            .map_err(failed)?;
        let newest = row.try_get::<i64>("", "token").map_err(failed)?;
        if newest > token { Err(FenceError::stale(fence, newest.unsigned_abs())) } else { Ok(()) }
    }

    async fn commit(transaction: Self::Transaction, fence: &Fence) -> Result<(), FenceError> {
        let backend = transaction.get_database_backend();
        // The commit of a `DatabaseTransaction` would only end a nested one that the body has kept.
        let commit = match backend {
            DbBackend::Postgres => statements::COMMIT_AND_BEGIN,
            DbBackend::MySql | DbBackend::Sqlite => statements::COMMIT_IF_OPEN,
        };
        let committed = transaction.execute_unprepared(commit).await;
        has_ended(transaction);
        committed.map(drop).map_err(|error| FenceError::of_commit(fence, is_refusal(backend, &error), error))
    }

    async fn roll_back(transaction: Self::Transaction) {
        // If the connection has broken, the server rolls back.
        drop(transaction.execute_unprepared(roll_back_all(&transaction)).await);
        has_ended(transaction);
    }

    async fn migrate(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let make = match self.get_database_backend() {
            DbBackend::MySql => schema::MYSQL,
            DbBackend::Postgres => statements::MAKE_IN_POSTGRES,
            DbBackend::Sqlite => schema::SQLITE,
        };
        self.execute_unprepared(make).await?;
        Ok(())
    }
}

#[cfg(feature = "sea-orm-postgres")]
impl crate::AssertHeld for DatabaseConnection {
    async fn assert_held(
        transaction: &mut Self::Transaction,
        assert: &str,
        fence: &Fence,
    ) -> Result<(), FenceError> {
        let assert = statement(&**transaction, assert, [fence.key().into(), signed(fence)?.into()]);
        match transaction.execute(assert).await {
            Ok(_) => Ok(()),
            Err(DbErr::Exec(RuntimeErr::SqlxError(error))) => {
                Err(crate::sqlx_postgres::of_assertion(fence, error))
            }
            Err(error) => Err(FenceError::not_committed(fence, error)),
        }
    }
}

#[cfg(feature = "once")]
impl crate::OnceDatabase for DatabaseConnection {
    async fn find(&self, fence: &Fence) -> Result<Option<crate::Stored>, FenceError> {
        find(self, once(self).find_committed, fence).await
    }

    async fn find_in(
        &self,
        transaction: &mut Self::Transaction,
        fence: &Fence,
    ) -> Result<Option<crate::Stored>, FenceError> {
        find(&**transaction, once(&**transaction).find, fence).await
    }

    async fn store(
        transaction: &mut Self::Transaction,
        fence: &Fence,
        stored: &crate::Stored,
        keep: std::time::Duration,
    ) -> Result<(), FenceError> {
        if transaction.get_database_backend() != DbBackend::Postgres {
            let open = transaction.execute_unprepared(statements::STILL_OPEN).await;
            open.map_err(|error| FenceError::outcome_unknown(fence, error))?;
        }
        let row = [
            key(&**transaction, fence),
            stored.result.as_str().into(),
            stored.arguments.clone().into(),
            signed(fence)?.into(),
            crate::once_statements::millis(keep).into(),
        ];
        let store = statement(&**transaction, once(&**transaction).store, row);
        let stored = transaction.execute(store).await.map(|done| done.rows_affected());
        crate::once_statements::stored(stored, fence)
    }

    async fn prune(&self) -> Result<u64, Box<dyn Error + Send + Sync>> {
        Ok(self.execute_unprepared(once(self).prune).await?.rows_affected())
    }
}

#[cfg(feature = "once")]
async fn find(
    database: &impl ConnectionTrait,
    find: &str,
    fence: &Fence,
) -> Result<Option<crate::Stored>, FenceError> {
    let find = statement(database, find, [key(database, fence)]);
    let stored = async {
        let Some(row) = database.query_one(find).await? else { return Ok(None) };
        Ok(Some(crate::Stored {
            result: row.try_get("", "result")?,
            arguments: row.try_get("", "arguments")?,
        }))
    };
    stored.await.map_err(|error: DbErr| FenceError::not_committed(fence, error))
}

#[cfg(feature = "once")]
fn once(database: &impl ConnectionTrait) -> crate::once_statements::OnceStatements {
    match database.get_database_backend() {
        DbBackend::MySql => crate::once_statements::MYSQL,
        DbBackend::Postgres => crate::once_statements::POSTGRES,
        DbBackend::Sqlite => crate::once_statements::SQLITE,
    }
}

/// The statement that ends the transaction, whatever the body has begun in it. A `DatabaseTransaction` would only end a
/// nested one that the body has kept, whose commit would then commit everything.
fn roll_back_all(transaction: &DatabaseTransaction) -> &'static str {
    match transaction.get_database_backend() {
        // The ROLLBACK that the transaction then sends has something to end, else the server would warn each time.
        DbBackend::Postgres => "ROLLBACK AND CHAIN",
        DbBackend::MySql | DbBackend::Sqlite => "ROLLBACK",
    }
}

/// On PostgreSQL and MySQL, a transaction that has ended sends ROLLBACK when it is dropped, which then has no effect.
fn has_ended(transaction: Begun<DatabaseTransaction>) {
    if transaction.get_database_backend() != DbBackend::Sqlite {
        drop(transaction.into_inner());
    }
}

/// Rolls a dropped transaction back, and waits for no reply. The ROLLBACK that the transaction itself sends ends one
/// level only, so one that ends all is sent in front of it.
fn abandon(transaction: DatabaseTransaction) {
    let backend = transaction.get_database_backend();
    // On PostgreSQL, nothing is sent if the connection still waits for the reply to a statement that was dropped. On
    // MySQL, `sqlx` 0.8 might lose count of the replies then.
    if backend != DbBackend::MySql {
        drop(send(transaction.execute_unprepared(roll_back_all(&transaction))));
    }
    if backend == DbBackend::Sqlite {
        count_down(&transaction);
    }
}

/// `sqlx` counts each transaction of SQLite, also a nested one, until its ROLLBACK succeeds, and would take the next
/// transaction of the connection for a nested one, whose commit is none. SQLite may have rolled back by itself, and the
/// body may have kept nested transactions. So this makes sure that each ROLLBACK succeeds. The thread of the connection
/// executes it all in this order, before anything else. It has room for these 16 commands, unless the program has set a
/// `command_buffer_size` below that (50 by default).
fn count_down(transaction: &DatabaseTransaction) {
    const NESTED: usize = 3;
    for depth in 1..=NESTED {
        let savepoint = format!("SAVEPOINT _sqlx_savepoint_{depth}");
        drop(send(transaction.execute_unprepared(&savepoint)));
    }
    for _ in 0..=NESTED {
        // If its `begin` is dropped before the reply, SeaORM rolls back one transaction more than it has begun. A reply
        // that is there at the first poll is rare, but a database of SeaORM's tests always replies at once.
        let _dropped = (0..100).find(|_| !matches!(send(transaction.begin()), Poll::Ready(Ok(_))));
    }
    // If `sqlx` has counted none, the savepoints are left.
    drop(send(transaction.execute_unprepared("ROLLBACK")));
}

/// Sends a statement, by the first poll.
fn send<T>(statement: impl Future<Output = T>) -> Poll<T> {
    pin!(statement).poll(&mut Context::from_waker(Waker::noop()))
}

/// The key, in the type of the column.
fn key(database: &impl ConnectionTrait, fence: &Fence) -> Value {
    match database.get_database_backend() {
        DbBackend::MySql => fence.key().as_bytes().into(),
        DbBackend::Postgres | DbBackend::Sqlite => fence.key().into(),
    }
}

fn statement<const N: usize>(database: &impl ConnectionTrait, sql: &str, values: [Value; N]) -> Statement {
    Statement::from_sql_and_values(database.get_database_backend(), sql, values)
}

/// Whether the database has refused to commit.
fn is_refusal(backend: DbBackend, error: &DbErr) -> bool {
    let (DbErr::Query(RuntimeErr::SqlxError(error)) | DbErr::Exec(RuntimeErr::SqlxError(error))) = error
    else {
        return false;
    };
    match backend {
        #[cfg(feature = "sea-orm-mysql")]
        DbBackend::MySql => crate::sqlx_mysql::is_refusal(error),
        #[cfg(feature = "sea-orm-postgres")]
        DbBackend::Postgres => {
            // With these, BEGIN may have failed, which follows COMMIT: it was cancelled, or there was no memory.
            let code = error.as_database_error().and_then(|error| error.code()).unwrap_or_default();
            crate::sqlx_postgres::is_refusal(error) && code != "57014" && !code.starts_with("53")
        }
        #[cfg(feature = "sea-orm-sqlite")]
        DbBackend::Sqlite => crate::sqlx_sqlite::is_refusal(error),
        #[allow(unreachable_patterns, reason = "databases without their feature")]
        _ => false,
    }
}
