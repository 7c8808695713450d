//! Locks in a table of PostgreSQL, 13 or later.
//!
//! Each key has a row, with its owner, the end of its lease by the server's clock, and its last fencing token. Commands
//! are calls of functions in the database (`sql/`), one statement each. They do not depend on earlier statements, so
//! they work behind a pooler that gives every transaction another connection. docs/postgres.md lists the permissions of
//! a role, and how a transaction asserts that its lock is still held.

mod commands;
mod diagnosis;
mod dial;
mod errors;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod grants;
mod link;
mod listener;
mod listing;
mod prepared;
mod schema;
mod supervisor;
mod tls;
mod url;

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::Type;

use commands::{Statements, acquired, garbled, kind_of, millis, number_of, replaced};
use grants::Grants;
use link::Pool;
use prepared::Parameter;
use schema::{Functions, Schema};
use url::Listening;
use url::PostgresConfig;

use distlock_store::engine::Failure;
use distlock_store::kit::connection::ConnectionOptions;
use distlock_store::kit::link::Link;
use distlock_store::{
    Abilities, Acquire, AcquireReply, Busy, Fencing, Finding, List, LockKind, LockStore, Owner, Publish,
    Queue, Release, ReleaseReply, Renew, RenewReply, Replace, ReplaceReply, StoreError, StoreEvents,
    StoredLock, StoredPage, Waiting, clock,
};

/// Longer than any real lease.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// How many keys one command acquires or renews.
const MOST_TOGETHER: usize = 256;

/// The holder that is shown if an acquisition waited for its row until the time-out.
const LOCKED: &str = "a transaction that has locked its row";
/// The number of rows that one statement checks when it removes old ones. Later commands wait for it.
const PRUNED_AT_ONCE: i64 = 1_000;

/// The SQL with which an administrator creates the schema of this name, with its tables and functions. A comment has
/// the permissions for the programs' role. It can be run again, and replaces functions of an earlier version.
///
/// # Errors
/// The text is not a valid schema name.
///
/// ```
/// assert!(distlock_postgres::sql("distlock").unwrap().contains("CREATE SCHEMA IF NOT EXISTS \"distlock\""));
/// ```
pub fn sql(schema: &str) -> Result<String, String> {
    let schema = Schema::named(schema)?;
    Ok(format!("{}\n-- For the role of the programs:\n-- {}\n", schema.sql(), schema.grants()))
}

/// Locks in a table of PostgreSQL.
#[derive(Debug)]
pub struct PostgresStore {
    config: PostgresConfig,
    statements: Statements,
    link: Link<Pool>,
    grants: Grants,
}

impl PostgresStore {
    /// A store from a URL and the program's options.
    ///
    /// # Errors
    /// A sentence that names the remedy.
    pub fn new(url: &str, options: &ConnectionOptions) -> Result<Self, String> {
        let config = PostgresConfig::parse(url, options)?;
        let statements = Statements::new(&config.schema);
        Ok(PostgresStore { config, statements, link: Link::default(), grants: Grants::default() })
    }

    /// The connections, if there are any now.
    fn pool(&self) -> Result<Arc<Pool>, StoreError> {
        let pool = self.link.get().filter(|pool| !pool.is_broken());
        pool.ok_or_else(|| StoreError::not_sent("there is no connection to PostgreSQL"))
    }

    /// Refuses a request that the installed functions, of an earlier revision, cannot handle safely.
    fn refuse_outdated(&self, pool: &Pool, request: &Acquire) -> Result<(), StoreError> {
        let is_refused = pool.functions != Functions::Current && request.kind != LockKind::Exclusive;
        if is_refused { Err(self.config.schema.outdated()) } else { Ok(()) }
    }

    /// Removes the rows of keys that have been free for a long time, for some keys after this one. Returns the key to
    /// continue after, if there are more.
    async fn prune(&self, behind: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let parameters: [Parameter<'_>; 2] = [(&behind, Type::BYTEA), (&PRUNED_AT_ONCE, Type::INT8)];
        self.pool()?.value(&self.statements.prune, &parameters).await
    }
}

impl LockStore for PostgresStore {
    fn abilities(&self) -> Abilities {
        let waiting = match self.config.listening {
            Listening::Here | Listening::At(_) => Waiting::Queued,
            Listening::Off => Waiting::Polling,
        };
        Abilities::default()
            .waiting(waiting)
            .shared()
            .limited()
            .min_hold()
            .fencing(Fencing::Blocks)
            .longest_ttl(LONGEST)
            .acquires_together(MOST_TOGETHER)
            .renews_together(MOST_TOGETHER)
            // Twice: for the commands' connection, and for the one that listens.
            .connects_within(self.config.connect_timeout * 2)
            .lists()
            .publishes()
            .replaces()
    }

    fn describe(&self) -> String {
        self.config.describe()
    }

    async fn acquire(&self, request: &Acquire) -> Result<AcquireReply, StoreError> {
        let Acquire { key, owner, ttl, kind, fences, queue, .. } = request;
        let pool = self.pool()?;
        let wanted = i32::try_from(*fences).unwrap_or(i32::MAX);
        let (ttl, kind) = (millis(*ttl), number_of(*kind));
        let (channel, claim, entry) = place(queue.as_ref(), &pool);
        self.refuse_outdated(&pool, request)?;
        let asked = clock::now();
        let is_first = queue
            .filter(|_| channel.is_some())
            .is_some_and(|queue| self.grants.asks(owner, asked, queue.claim, *fences));
        let said: Result<String, StoreError> = pool
            .value(
                &self.statements.acquire,
                &[
                    (&pool.durability, Type::TEXT),
                    (&key.as_bytes(), Type::BYTEA),
                    (&owner.as_str(), Type::TEXT),
                    (&ttl, Type::INT8),
                    (&kind, Type::INT4),
                    (&wanted, Type::INT4),
                    (&channel, Type::INT8),
                    (&claim, Type::INT8),
                    (&entry, Type::INT8),
                ],
            )
            .await;
        if is_first && said.as_ref().is_err_and(has_done_nothing) {
            self.grants.ends(owner);
        }
        if said.as_ref().is_err_and(errors::is_of_a_lock) {
            return Ok(locked());
        }
        let reply = acquired(&said?)?;
        match &reply {
            AcquireReply::Busy(_) if channel.is_some() => self.grants.waits(owner, asked, clock::now()),
            _ => self.grants.ends(owner),
        }
        Ok(reply)
    }

    async fn renew(&self, request: &Renew) -> Result<RenewReply, StoreError> {
        let replies = self.renew_all(std::slice::from_ref(request)).await?;
        replies.first().copied().ok_or_else(|| garbled("no reply"))
    }

    async fn release(&self, request: &Release) -> Result<ReleaseReply, StoreError> {
        let keep = request.keep.map(millis);
        self.grants.ends(&request.owner);
        let pool = self.pool()?;
        let found: bool = pool
            .value(
                &self.statements.release,
                &[
                    (&pool.durability, Type::TEXT),
                    (&request.key.as_bytes(), Type::BYTEA),
                    (&request.owner.as_str(), Type::TEXT),
                    (&keep, Type::INT8),
                ],
            )
            .await?;
        Ok(if found { ReleaseReply::Released } else { ReleaseReply::NotHeld })
    }

    async fn inspect(&self, key: &str) -> Result<Option<StoredLock>, StoreError> {
        let parameters: [Parameter<'_>; 1] = [(&key.as_bytes(), Type::BYTEA)];
        let rows = self.pool()?.ask(&self.statements.inspect, &parameters).await?;
        let mut found: Option<StoredLock> = None;
        for row in &rows {
            let read = || Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?));
            let (kind, holder, micros, waiters): (i32, String, i64, i64) =
                read().map_err(|error: tokio_postgres::Error| garbled(&error.to_string()))?;
            let lock = found.unwrap_or_else(|| StoredLock::new(kind_of(kind)));
            let remaining = Duration::from_micros(u64::try_from(micros).unwrap_or(0));
            let waiters = u64::try_from(waiters).unwrap_or(0);
            found = Some(lock.holder(holder, Some(remaining)).waiters(waiters));
        }
        match found {
            Some(lock) => {
                let lock = self.with_waiters(key, lock).await?;
                self.with_published(key, lock).await.map(Some)
            }
            None => Ok(None),
        }
    }

    async fn publish(&self, request: &Publish) -> Result<(), StoreError> {
        let (owner, key) = (request.owner.as_str(), request.key.as_bytes());
        let text = format!("{owner}\n{}", request.value);
        let parameters: [Parameter<'_>; 3] = [(&key, Type::BYTEA), (&owner, Type::TEXT), (&text, Type::TEXT)];
        let _held: bool = self.pool()?.value(&self.statements.publish, &parameters).await?;
        Ok(())
    }

    async fn unpublish(&self, request: &Publish) -> Result<(), StoreError> {
        let (owner, key) = (request.owner.as_str(), request.key.as_bytes());
        let parameters: [Parameter<'_>; 2] = [(&key, Type::BYTEA), (&owner, Type::TEXT)];
        let _was_there: bool = self.pool()?.value(&self.statements.unpublish, &parameters).await?;
        Ok(())
    }

    async fn replace(&self, request: &Replace) -> Result<ReplaceReply, StoreError> {
        let Replace { key, holder, owner, ttl, fences, .. } = request;
        let pool = self.pool()?;
        // The statement calls functions that an earlier revision does not have.
        if pool.functions != Functions::Current {
            return Err(self.config.schema.outdated());
        }
        let (ttl, wanted) = (millis(*ttl), i32::try_from(*fences).unwrap_or(i32::MAX));
        let parameters: [Parameter<'_>; 6] = [
            (&pool.durability, Type::TEXT),
            (&key.as_bytes(), Type::BYTEA),
            (&holder.as_str(), Type::TEXT),
            (&owner.as_str(), Type::TEXT),
            (&ttl, Type::INT8),
            (&wanted, Type::INT4),
        ];
        let said: Result<String, StoreError> = pool.value(&self.statements.replace, &parameters).await;
        if said.as_ref().is_err_and(errors::is_of_a_lock) {
            return Err(StoreError::later("another transaction has locked the row of the key"));
        }
        replaced(&said?)
    }

    async fn list(&self, request: &List) -> Result<StoredPage, StoreError> {
        self.page(request).await
    }

    async fn diagnose(&self) -> Result<Vec<Finding>, StoreError> {
        self.examine().await
    }

    async fn force_release(&self, key: &str) -> Result<bool, StoreError> {
        let pool = self.pool()?;
        let parameters: [Parameter<'_>; 2] = [(&pool.durability, Type::TEXT), (&key.as_bytes(), Type::BYTEA)];
        pool.value(&self.statements.force_release, &parameters).await
    }

    async fn acquire_all(&self, requests: &[Acquire]) -> Result<Vec<AcquireReply>, StoreError> {
        let keys: Vec<&[u8]> = requests.iter().map(|request| request.key.as_bytes()).collect();
        let owners: Vec<&str> = requests.iter().map(|request| request.owner.as_str()).collect();
        let ttls: Vec<i64> = requests.iter().map(|request| millis(request.ttl)).collect();
        let kinds: Vec<i32> = requests.iter().map(|request| number_of(request.kind)).collect();
        let pool = self.pool()?;
        requests.iter().try_for_each(|request| self.refuse_outdated(&pool, request))?;
        let places: Vec<_> = requests.iter().map(|request| place(request.queue.as_ref(), &pool)).collect();
        let channels: Vec<Option<i64>> = places.iter().map(|place| place.0).collect();
        let claims: Vec<i64> = places.iter().map(|place| place.1).collect();
        let entries: Vec<i64> = places.iter().map(|place| place.2).collect();
        let asked = clock::now();
        let queued = || {
            let queued = requests.iter().zip(&channels).filter(|(_, channel)| channel.is_some());
            queued.filter_map(|(request, _)| request.queue.map(|queue| (request, queue)))
        };
        let is_first = |(request, queue): &(&Acquire, Queue)| {
            self.grants.asks(&request.owner, asked, queue.claim, request.fences)
        };
        let first: Vec<&Owner> = queued().filter(is_first).map(|(request, _)| &request.owner).collect();
        let said: Result<String, StoreError> = pool
            .value(
                &self.statements.acquire_all,
                &[
                    (&pool.durability, Type::TEXT),
                    (&keys, Type::BYTEA_ARRAY),
                    (&owners, Type::TEXT_ARRAY),
                    (&ttls, Type::INT8_ARRAY),
                    (&kinds, Type::INT4_ARRAY),
                    (&channels, Type::INT8_ARRAY),
                    (&claims, Type::INT8_ARRAY),
                    (&entries, Type::INT8_ARRAY),
                ],
            )
            .await;
        if said.as_ref().is_err_and(has_done_nothing) {
            first.iter().for_each(|owner| self.grants.ends(owner));
        }
        if said.as_ref().is_err_and(errors::is_of_a_lock) {
            // One of the keys was locked. The statement was rolled back, so none of them was acquired.
            return Ok(vec![locked()]);
        }
        let replies: Vec<AcquireReply> = said?.lines().map(acquired).collect::<Result<_, _>>()?;
        let replied = clock::now();
        for (request, reply) in requests.iter().zip(&replies) {
            match reply {
                AcquireReply::Busy(_) => self.grants.waits(&request.owner, asked, replied),
                _ => self.grants.ends(&request.owner),
            }
        }
        // Nothing was asked for the keys behind the first that is busy.
        let behind = requests.iter().skip(replies.len()).map(|request| &request.owner);
        behind.filter(|owner| first.contains(owner)).for_each(|owner| self.grants.ends(owner));
        Ok(replies)
    }

    async fn renew_all(&self, requests: &[Renew]) -> Result<Vec<RenewReply>, StoreError> {
        // All clients lock rows in this order, which prevents deadlocks.
        let mut order: Vec<usize> = (0..requests.len()).collect();
        order.sort_unstable_by_key(|at| &requests[*at].key);
        let keys: Vec<&[u8]> = order.iter().map(|at| requests[*at].key.as_bytes()).collect();
        let owners: Vec<&str> = order.iter().map(|at| requests[*at].owner.as_str()).collect();
        let ttls: Vec<i64> = order.iter().map(|at| millis(requests[*at].ttl)).collect();
        let pool = self.pool()?;
        let said: String = pool
            .value(
                &self.statements.renew,
                &[
                    (&pool.durability, Type::TEXT),
                    (&keys, Type::BYTEA_ARRAY),
                    (&owners, Type::TEXT_ARRAY),
                    (&ttls, Type::INT8_ARRAY),
                ],
            )
            .await?;
        if said.len() != requests.len() {
            return Err(garbled(&said));
        }
        // A lease that is renewed, or lost, is no longer a grant.
        requests.iter().for_each(|request| self.grants.ends(&request.owner));
        let mut replies = vec![RenewReply::NotHeld; requests.len()];
        for (at, word) in order.into_iter().zip(said.bytes()) {
            if word == b'1' {
                replies[at] = RenewReply::Renewed;
            }
        }
        Ok(replies)
    }

    async fn run(&self, events: StoreEvents) {
        events.wanted().await;
        self.config.connection_name.get_or_init(|| listing::connection_name(events.client()));
        self.stay_connected(&events).await;
    }
}

/// Whether the command has certainly put no owner into the queue.
fn has_done_nothing(error: &StoreError) -> bool {
    error.kind != Failure::Unknown
}

fn locked() -> AcquireReply {
    AcquireReply::Busy(Busy::by(LOCKED).is_not_reported())
}

/// The channel to notify the waiter by, and the duration of a grant and of the place. `None`: no place.
fn place(queue: Option<&Queue>, pool: &Pool) -> (Option<i64>, i64, i64) {
    let place = queue.zip(pool.channel);
    place.map_or((None, 0, 0), |(queue, channel)| {
        (Some(channel), millis(queue.claim), millis(queue.entry_ttl))
    })
}
