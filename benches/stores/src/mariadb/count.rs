//! The simplest code for locks of all kinds on MariaDB: a row with a count.

use std::marker::PhantomData;
use std::sync::Arc;

use mysql_async::prelude::Queryable;
use tokio::sync::OnceCell;

use crate::Result;
use crate::kinds::{Kind, Kinds, MOST};
use crate::locks::Locks;
use crate::mariadb::contenders::Connections;
use crate::pauses::Pauses;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS counts (k VARBINARY(255) PRIMARY KEY, taken INT NOT NULL, \
                     expires DATETIME(6) NOT NULL) ENGINE=InnoDB";
const ROW: &str = "INSERT IGNORE INTO counts VALUES (?, 0, '2000-01-01')";
/// One lease for all holders. After a crash, the row becomes free when no new holder has come for 30 s.
const ACQUIRE: &str = "UPDATE counts SET taken = IF(expires < SYSDATE(6), 0, taken) + ?, \
                       expires = SYSDATE(6) + INTERVAL 30 SECOND \
                       WHERE k = ? AND (expires < SYSDATE(6) OR taken + ? <= ?)";
const RELEASE: &str = "UPDATE counts SET taken = taken - ? WHERE k = ? AND taken >= ?";
const READERS: u32 = 1_000_000;

/// A reader takes one of many shares, a writer takes all, and a holder of a limited lock takes one of a few. A client
/// that finds too few asks again.
#[derive(Clone)]
pub(crate) struct RawCount<P> {
    connections: Arc<Connections>,
    row: Arc<OnceCell<()>>,
    pauses: PhantomData<P>,
}

impl<P: Pauses> Locks for RawCount<P> {
    type Guard = (Arc<Connections>, String, u32);

    async fn connect(url: &str, name: &str) -> Result<Self> {
        let connections = Connections::open(url, name).await?;
        Ok(RawCount { connections, row: Arc::default(), pauses: PhantomData })
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        self.acquire_as(key, Kind::Exclusive).await
    }

    async fn release((connections, key, shares): Self::Guard) -> Result<()> {
        let mut conn = connections.take().await?;
        let said = conn.exec_drop(RELEASE, (shares, key, shares)).await;
        connections.put(conn);
        Ok(said?)
    }
}

impl<P: Pauses> Kinds for RawCount<P> {
    async fn acquire_as(&self, key: &str, kind: Kind) -> Result<Self::Guard> {
        let (shares, all) = match kind {
            Kind::Exclusive => (READERS, READERS),
            Kind::Shared => (1, READERS),
            Kind::Limited => (1, MOST),
        };
        let made = self.row.get_or_try_init(async || {
            let mut conn = self.connections.take().await?;
            conn.query_drop(TABLE).await?;
            conn.exec_drop(ROW, (key,)).await?;
            self.connections.put(conn);
            Result::Ok(())
        });
        made.await?;
        let mut asked = 0;
        loop {
            let mut conn = self.connections.take().await?;
            let said = conn.exec_drop(ACQUIRE, (shares, key, shares, all)).await;
            let is_ours = conn.affected_rows() > 0;
            self.connections.put(conn);
            said?;
            if is_ours {
                return Ok((self.connections.clone(), key.to_owned(), shares));
            }
            P::pause(asked).await;
            asked += 1;
        }
    }
}
