//! Simple code with the client of MariaDB: a lease row, and prepared statements.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use tokio::sync::Semaphore;

use crate::Result;
use crate::locks::Locks;
use crate::pauses::Pauses;

/// The same number of connections as for distlock.
pub(crate) const CONNECTIONS: usize = 16;
const TABLE: &str = "CREATE TABLE IF NOT EXISTS raw (k VARBINARY(255) PRIMARY KEY, owner VARBINARY(64) NOT NULL, \
                     expires DATETIME(6) NOT NULL, fence BIGINT NOT NULL) ENGINE=InnoDB";
const ACQUIRE: &str = "INSERT INTO raw VALUES (?, ?, SYSDATE(6) + INTERVAL 30 SECOND, LAST_INSERT_ID(1)) \
    ON DUPLICATE KEY UPDATE \
    fence = IF(expires < SYSDATE(6), LAST_INSERT_ID(fence + 1), fence + 0 * LAST_INSERT_ID(0)), \
    owner = IF(LAST_INSERT_ID() > 0, ?, owner), \
    expires = IF(LAST_INSERT_ID() > 0, SYSDATE(6) + INTERVAL 30 SECOND, expires)";
const RELEASE: &str = "UPDATE raw SET expires = '2000-01-01' WHERE k = ? AND owner = ?";
/// The next owner waits for the row until this is committed, and is awake by then.
const RELEASE_BOTH: &str =
    "UPDATE raw SET expires = '2000-01-01' WHERE k = ? AND owner = ? AND RELEASE_LOCK(?) IS NOT NULL";

/// Connections that are used in turn.
pub(crate) struct Connections {
    idle: Mutex<Vec<Conn>>,
    turns: Semaphore,
    owners: AtomicU64,
    name: String,
}

impl Connections {
    pub(super) async fn open(url: &str, name: &str) -> Result<Arc<Self>> {
        let (turns, owners) = (Semaphore::new(0), AtomicU64::new(0));
        let all = Connections { idle: Mutex::default(), turns, owners, name: name.to_owned() };
        for _ in 0..CONNECTIONS {
            let opts = OptsBuilder::from_opts(Opts::from_url(url)?).prefer_socket(false);
            let mut conn = Conn::new(opts).await?;
            conn.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
            conn.query_drop(TABLE).await?;
            all.put(conn);
        }
        Ok(Arc::new(all))
    }

    pub(super) fn put(&self, conn: Conn) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
        self.turns.add_permits(1);
    }

    pub(super) async fn take(&self) -> Result<Conn> {
        self.turns.acquire().await?.forget();
        let taken = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        taken.ok_or_else(|| "no connection".into())
    }

    fn new_owner(&self) -> String {
        format!("{}:{}", self.name, self.owners.fetch_add(1, Ordering::Relaxed))
    }
}

/// Returns whether the row was free.
async fn acquire(conn: &mut Conn, key: &str, owner: &str) -> Result<bool> {
    conn.exec_drop(ACQUIRE, (key, owner, owner)).await?;
    Ok(conn.last_insert_id().unwrap_or(0) > 0)
}

/// A row. A client that finds it taken asks again.
#[derive(Clone)]
pub(crate) struct RawRow<P> {
    connections: Arc<Connections>,
    pauses: PhantomData<P>,
}

impl<P: Pauses> Locks for RawRow<P> {
    type Guard = (Arc<Connections>, String, String);

    async fn connect(url: &str, name: &str) -> Result<Self> {
        Ok(RawRow { connections: Connections::open(url, name).await?, pauses: PhantomData })
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        let owner = self.connections.new_owner();
        let mut asked = 0;
        loop {
            let mut conn = self.connections.take().await?;
            let is_ours = acquire(&mut conn, key, &owner).await;
            self.connections.put(conn);
            if is_ours? {
                return Ok((self.connections.clone(), key.to_owned(), owner));
            }
            P::pause(asked).await;
            asked += 1;
        }
    }

    async fn release((connections, key, owner): Self::Guard) -> Result<()> {
        let mut conn = connections.take().await?;
        let said = conn.exec_drop(RELEASE, (key, owner)).await;
        connections.put(conn);
        Ok(said?)
    }
}

/// A row that the first waiter polls. The other waiters wait for a lock of the server, which the owner keeps as long as
/// it has the row. This costs one connection for each waiter.
#[derive(Clone)]
pub(crate) struct RowBehindGetLock<P>(RawRow<P>);

/// A row, and the connection that has the server's lock, if the owner has waited.
pub(crate) struct Both {
    connections: Arc<Connections>,
    key: String,
    owner: String,
    waited: Option<Conn>,
}

impl<P: Pauses> Locks for RowBehindGetLock<P> {
    type Guard = Both;

    async fn connect(url: &str, name: &str) -> Result<Self> {
        Ok(RowBehindGetLock(RawRow::connect(url, name).await?))
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        let connections = self.0.connections.clone();
        let owner = connections.new_owner();
        let mut conn = connections.take().await?;
        if acquire(&mut conn, key, &owner).await? {
            connections.put(conn);
            return Ok(Both { connections, key: key.to_owned(), owner, waited: None });
        }
        let got: Option<i64> = conn.exec_first("SELECT GET_LOCK(?, 30)", (key,)).await?;
        if got != Some(1) {
            return Err("no turn within 30 s".into());
        }
        let mut asked = 0;
        while !acquire(&mut conn, key, &owner).await? {
            P::pause(asked).await;
            asked += 1;
        }
        Ok(Both { connections, key: key.to_owned(), owner, waited: Some(conn) })
    }

    async fn release(guard: Self::Guard) -> Result<()> {
        let Both { connections, key, owner, waited } = guard;
        let conn = match waited {
            Some(mut conn) => {
                conn.exec_drop(RELEASE_BOTH, (&key, owner, &key)).await?;
                conn
            }
            None => {
                let mut conn = connections.take().await?;
                conn.exec_drop(RELEASE, (key, owner)).await?;
                conn
            }
        };
        connections.put(conn);
        Ok(())
    }
}
