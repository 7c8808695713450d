//! Locks of all kinds, with the server's advisory locks.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::{Client, Statement};

use crate::Result;
use crate::kinds::{Kind, Kinds, MOST};
use crate::locks::Locks;
use crate::postgres::contenders::connect;

const WRITE: &str = "SELECT pg_advisory_lock($1)";
const READ: &str = "SELECT pg_advisory_lock_shared($1)";
/// The server has no limited locks, so the lock of each possible holder is tried.
const TRY: &str = "SELECT pg_try_advisory_lock($1)";
const GIVE: &str = "SELECT pg_advisory_unlock($1)";
const GIVE_READ: &str = "SELECT pg_advisory_unlock_shared($1)";

/// Locks of a session, which end with the session. While a session waits, its connection cannot be used.
#[derive(Clone)]
pub(crate) struct Advisory {
    client: Arc<Client>,
    write: Statement,
    read: Statement,
    attempt: Statement,
    give: Statement,
    give_read: Statement,
}

impl Locks for Advisory {
    type Guard = (Advisory, Kind, i64);

    async fn connect(url: &str, _name: &str) -> Result<Self> {
        let client = connect(url).await?;
        Ok(Advisory {
            write: client.prepare(WRITE).await?,
            read: client.prepare(READ).await?,
            attempt: client.prepare(TRY).await?,
            give: client.prepare(GIVE).await?,
            give_read: client.prepare(GIVE_READ).await?,
            client: Arc::new(client),
        })
    }

    async fn acquire(&self, key: &str) -> Result<Self::Guard> {
        self.acquire_as(key, Kind::Exclusive).await
    }

    async fn release((this, kind, number): Self::Guard) -> Result<()> {
        let give = if kind == Kind::Shared { &this.give_read } else { &this.give };
        if this.client.query_one(give, &[&number]).await?.try_get(0)? {
            Ok(())
        } else {
            Err("not held".into())
        }
    }
}

impl Kinds for Advisory {
    async fn acquire_as(&self, key: &str, kind: Kind) -> Result<Self::Guard> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let mut number = hasher.finish().cast_signed();
        match kind {
            Kind::Exclusive => drop(self.client.query_one(&self.write, &[&number]).await?),
            Kind::Shared => drop(self.client.query_one(&self.read, &[&number]).await?),
            Kind::Limited => {
                let first = number;
                for attempt in 0.. {
                    number = first.wrapping_add(attempt % i64::from(MOST));
                    if self.client.query_one(&self.attempt, &[&number]).await?.try_get(0)? {
                        break;
                    }
                    if number != first {
                        tokio::time::sleep(Duration::from_micros(fastrand::u64(500..1_500))).await;
                    }
                }
            }
        }
        Ok((self.clone(), kind, number))
    }
}
