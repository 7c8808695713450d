//! Locks in a table of MariaDB or MySQL.
//!
//! Each key has a row, with its owner, the end of its lease by the server's clock, and its last fencing token. To
//! acquire, renew or release an exclusive lock takes one statement, which is a separate transaction. A lock with
//! several holders takes a transaction of several statements, which are sent together (`several.rs`). There are no
//! notifications, so waiters poll. docs/mysql.md lists the permissions that the user needs.

mod config;
mod diagnosis;
mod errors;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod kinds;
mod link;
mod listing;
mod pruning;
mod schema;
mod several;
mod statements;
mod supervisor;
mod tls;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use config::MysqlConfig;
use kinds::kind_of;
use link::{Limit, Pool, Statement};
use mysql_async::Value;
use schema::Schema;
use several::Texts;
use statements::{Acquired, KeyState, Statements, Values, after, column, garbled, micros};

use distlock_store::engine::Failure;
use distlock_store::kit::connection::ConnectionOptions;
use distlock_store::kit::contended::Contended;
use distlock_store::kit::link::Link;
use distlock_store::kit::remembered::Remembered;
use distlock_store::{
    Abilities, Acquire, AcquireReply, Busy, Fencing, Finding, List, LockKind, LockStore, Publish, Release,
    ReleaseReply, Renew, RenewReply, Replace, ReplaceReply, StoreError, StoreEvents, StoredLock, StoredPage,
    Waiting,
};

/// Longer than any real lease.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// How many leases one statement renews.
const MOST_TOGETHER: usize = 100;
/// The number of keys that are remembered. A key that was forgotten costs one slower statement.
const MOST_KNOWN: usize = 16_384;

/// The SQL with which an administrator creates the tables, whose names begin with this prefix. A comment has the
/// permissions for the programs' user. It can be run again.
///
/// # Errors
/// The prefix is not valid in a table name.
///
/// ```
/// assert!(distlock_mysql::sql("distlock_").unwrap().contains("CREATE TABLE IF NOT EXISTS `distlock_lock_1`"));
/// ```
pub fn sql(table_prefix: &str) -> Result<String, String> {
    let schema = Schema::with_prefix(table_prefix)?;
    Ok(format!("{}\n-- For the user of the programs:\n-- {};\n", schema.sql(), schema.grants()))
}

/// Locks in a table of MariaDB or MySQL.
#[derive(Debug)]
pub struct MysqlStore {
    config: MysqlConfig,
    statements: Statements,
    texts: Texts,
    link: Link<Pool>,
    contended: Contended,
    /// The keys that had a row when this process last used them, with the kind of its last lock. Any process may have
    /// removed rows that were unused for long.
    known: Remembered<LockKind>,
}

impl MysqlStore {
    /// A store from a URL and the program's options.
    ///
    /// # Errors
    /// A sentence that names the remedy.
    pub fn new(url: &str, options: &ConnectionOptions) -> Result<Self, String> {
        let config = MysqlConfig::parse(url, options)?;
        let (statements, texts) = (Statements::new(&config.schema), Texts::new(&config.schema));
        let (contended, known) = (Contended::default(), Remembered::at_most(MOST_KNOWN));
        Ok(MysqlStore { config, statements, texts, link: Link::default(), contended, known })
    }

    fn pool(&self) -> Result<Arc<Pool>, StoreError> {
        self.link.get().ok_or_else(|| StoreError::not_sent("there is no connection to MySQL"))
    }

    /// Reads the holder of a key.
    async fn look(&self, pool: &Pool, key: &str, limit: Limit) -> Result<KeyState, StoreError> {
        let answer = pool.prepared(&self.statements.look, &|_| vec![bytes(key)], limit).await?;
        let found = KeyState::of(&answer.rows)?;
        pool.learn(found.clock);
        Ok(found)
    }

    /// Acquires the lock, or returns how long the lease of another owner lasts.
    async fn take(&self, pool: &Pool, request: &Acquire, limit: Limit) -> Result<Acquired, StoreError> {
        if self.known.get(&request.key).is_some() {
            if let Some(acquired) = self.take_row(pool, request, limit).await? {
                return Ok(acquired);
            }
            // The row is gone, or the statement was too late. The other statement finds out which.
            self.known.forget(&request.key);
        }
        for _ in 0..2 {
            if let Some(acquired) = self.take_any(pool, request, limit).await? {
                self.known.set(&request.key, request.kind);
                return Ok(acquired);
            }
            // The server's clock was set, or this machine slept. So the clock is read, and the statement is sent again.
            self.look(pool, &request.key, limit).await?;
        }
        Err(self.never_in_time())
    }

    /// Acquires the lock of a key that has a row.
    async fn take_row(
        &self,
        pool: &Pool,
        request: &Acquire,
        limit: Limit,
    ) -> Result<Option<Acquired>, StoreError> {
        if request.kind != LockKind::Exclusive {
            return self.enter(pool, request, true, limit).await;
        }
        let values = |not_after: i64| {
            let mut values = assigned(request);
            values.extend([bytes(&request.key), not_after.into()]);
            values
        };
        let answer = pool.prepared(&self.statements.acquire, &values, limit).await?;
        Acquired::of(answer.number)
    }

    /// Acquires the lock, and creates the row if there is none.
    async fn take_any(
        &self,
        pool: &Pool,
        request: &Acquire,
        limit: Limit,
    ) -> Result<Option<Acquired>, StoreError> {
        if request.kind != LockKind::Exclusive {
            return self.enter(pool, request, false, limit).await;
        }
        let Acquire { key, owner, ttl, fences, .. } = request;
        let values = |not_after: i64| {
            let ttl = micros(*ttl).into();
            let mut values =
                vec![bytes(key), bytes(owner.as_str()), ttl, Value::from(*fences), not_after.into()];
            values.extend(assigned(request));
            values
        };
        let answer = pool.prepared(&self.statements.acquire_new, &values, limit).await?;
        Acquired::of(answer.number)
    }

    fn never_in_time(&self) -> StoreError {
        let floor = self.config.schema.fill("@floor");
        StoreError::later(format!(
            "the statement came too late, or the table {floor} has lost its row: INSERT INTO {floor} VALUES (1, N), \
             with N above every fencing token"
        ))
    }

    /// Executes a statement that changes one row if it is in time. If it was too late, as the state of the key shows,
    /// it is executed a second time. If there was nothing to change, returns that state.
    async fn change(
        &self,
        key: &str,
        sql: &str,
        values: &(dyn Fn(i64) -> Values + Sync),
        was_late: impl Fn(&KeyState) -> bool,
        limit: Limit,
    ) -> Result<Option<KeyState>, StoreError> {
        let pool = self.pool()?;
        for _ in 0..2 {
            if pool.prepared(sql, values, limit).await?.affected > 0 {
                return Ok(None);
            }
            let found = self.look(&pool, key, limit).await?;
            if !was_late(&found) {
                return Ok(Some(found));
            }
        }
        Err(StoreError::later("the statement came too late"))
    }

    /// Renews leases with the same ttl. Returns the keys whose leases were renewed.
    async fn renew_some(
        &self,
        some: &[&Renew],
        ttl: i64,
        limit: Limit,
    ) -> Result<HashSet<Vec<u8>>, StoreError> {
        let pool = self.pool()?;
        let pairs: Vec<(&str, &str)> =
            some.iter().map(|request| (&*request.key, request.owner.as_str())).collect();
        for _ in 0..2 {
            let renew = |not_after| self.statements.renew_all(&pairs, ttl, not_after);
            let renewed = pool.ask(Statement::Text(&renew), limit).await?.affected;
            if usize::try_from(renewed) == Ok(pairs.len()) {
                return Ok(pairs.iter().map(|(key, _)| key.as_bytes().to_vec()).collect());
            }
            let held = |_| self.statements.held_of(&pairs);
            let held = pool.ask(Statement::Text(&held), limit).await?;
            let held: HashSet<Vec<u8>> =
                held.rows.iter().map(|row| column(row, 0)).collect::<Result<_, _>>()?;
            // A key that its owner holds now was also held before, because no other client acquires a lock for this
            // owner.
            if u64::try_from(held.len()).is_ok_and(|held| held <= renewed) {
                return Ok(held);
            }
            // Some leases were held, but were not renewed: the statement was too late.
            let first = pairs.first().map_or("", |(key, _)| key);
            self.look(&pool, first, limit).await?;
        }
        Err(StoreError::later("the renewal came too late"))
    }
}

impl LockStore for MysqlStore {
    fn abilities(&self) -> Abilities {
        Abilities::default()
            .waiting(Waiting::Polling)
            .min_hold()
            .fencing(Fencing::Blocks)
            .longest_ttl(LONGEST)
            .lists()
            .publishes()
            .replaces()
            .renews_together(MOST_TOGETHER)
            .shared()
            .limited()
            .connects_within(self.config.longest_attempt())
    }

    fn describe(&self) -> String {
        self.config.describe()
    }

    async fn acquire(&self, request: &Acquire) -> Result<AcquireReply, StoreError> {
        let (pool, limit, key) = (self.pool()?, Limit::of_a_command(), &request.key);
        // A request that polls reads first. The statement that acquires would lock the row for a moment.
        if self.contended.is(key) {
            let found = self.look(&pool, key, limit).await?;
            if let Some(reply) = self.obstacle(&pool, request, found, limit).await? {
                self.contended.noted(key);
                return Ok(reply);
            }
        }
        let mut remaining = Duration::ZERO;
        for _ in 0..2 {
            remaining = match self.take(&pool, request, limit).await? {
                Acquired::Now { first } => {
                    self.contended.ended(key);
                    self.known.set(key, request.kind);
                    return Ok(AcquireReply::Acquired { fence: Some(first) });
                }
                Acquired::Before { first } => return Ok(AcquireReply::AlreadyHeld { fence: Some(first) }),
                Acquired::Busy { remaining } => remaining,
            };
            self.contended.noted(key);
            // The lock is busy, even if no more details can be read.
            let Ok(found) = self.look(&pool, key, limit).await else { break };
            if found.ends_ahead {
                let values = |not_after: i64| vec![bytes(key), not_after.into()];
                pool.prepared(&self.statements.end_now, &values, limit).await?;
            } else if let Some(reply) = self.obstacle(&pool, request, found, limit).await? {
                return Ok(reply);
            }
            // The lock is free now.
        }
        Ok(AcquireReply::Busy(Busy::by_somebody().is_not_reported().remaining(remaining)))
    }

    async fn renew(&self, request: &Renew) -> Result<RenewReply, StoreError> {
        let Renew { key, owner, ttl, kind, .. } = request;
        if *kind != LockKind::Exclusive {
            let replies = self.renew_several(&[request], micros(*ttl), Limit::of_a_command()).await?;
            return replies.first().copied().ok_or_else(|| garbled("no reply"));
        }
        let (owner, ttl) = (owner.as_str(), micros(*ttl));
        let values = |not_after: i64| vec![ttl.into(), bytes(key), bytes(owner), not_after.into()];
        let is_held = |found: &KeyState| found.is_held_by(owner);
        let renewed =
            self.change(key, &self.statements.renew, &values, is_held, Limit::of_a_command()).await?;
        Ok(if renewed.is_none() { RenewReply::Renewed } else { RenewReply::NotHeld })
    }

    async fn release(&self, request: &Release) -> Result<ReleaseReply, StoreError> {
        let Release { key, owner, keep, .. } = request;
        let (pool, limit) = (self.pool()?, Limit::of_a_command());
        let is_several = self.known.get(key).is_some_and(|kind| kind != LockKind::Exclusive);
        if is_several && self.leave(&pool, request, limit).await? {
            return Ok(ReleaseReply::Released);
        }
        let (owner, (next, stays)) = (owner.as_str(), after(*keep));
        let values =
            |not_after: i64| vec![bytes(next), stays.into(), bytes(key), bytes(owner), not_after.into()];
        let is_held = |found: &KeyState| found.is_held_by(owner);
        let is_released = match self.change(key, &self.statements.release, &values, is_held, limit).await? {
            None => true,
            // This process has since locked the key as another kind, or the owner is one of another process.
            Some(found) if found.is_several() && !is_several => self.leave(&pool, request, limit).await?,
            Some(_) => false,
        };
        Ok(if is_released { ReleaseReply::Released } else { ReleaseReply::NotHeld })
    }

    async fn inspect(&self, key: &str) -> Result<Option<StoredLock>, StoreError> {
        let (pool, limit) = (self.pool()?, Limit::of_a_command());
        let found = self.look(&pool, key, limit).await?;
        let Some((holder, remaining)) = found.holder else { return Ok(None) };
        match kind_of(&holder) {
            LockKind::Exclusive => {
                let lock = StoredLock::new(LockKind::Exclusive).holder(holder, Some(remaining));
                // If the administrator has not created this table yet, nothing was published.
                let found = pool.prepared(&self.statements.published, &|_| vec![bytes(key)], limit).await;
                found.map_or(Ok(vec![]), |found| found.rows.iter().map(said).collect()).map(|said: Vec<_>| {
                    Some(said.into_iter().fold(lock, |lock, (owner, said)| lock.published(&owner, said)))
                })
            }
            kind => self.held_by_several(&pool, key, kind, limit).await,
        }
    }

    async fn publish(&self, request: &Publish) -> Result<(), StoreError> {
        let Publish { key, owner, value, .. } = request;
        let values = |not_after: i64| vec![bytes(value), bytes(key), bytes(owner.as_str()), not_after.into()];
        let (pool, limit) = (self.pool()?, Limit::of_a_command());
        pool.prepared(&self.statements.publish, &values, limit).await?;
        Ok(())
    }

    async fn unpublish(&self, request: &Publish) -> Result<(), StoreError> {
        let Publish { key, owner, .. } = request;
        let values = |not_after: i64| vec![bytes(key), bytes(owner.as_str()), not_after.into()];
        let (pool, limit) = (self.pool()?, Limit::of_a_command());
        let removed = pool.prepared(&self.statements.unpublish, &values, limit).await;
        match removed {
            Err(error) if error.kind == Failure::Refused => {
                pool.prepared(&self.statements.disown, &values, limit).await.map(drop)
            }
            removed => removed.map(drop),
        }
    }

    async fn replace(&self, request: &Replace) -> Result<ReplaceReply, StoreError> {
        let Replace { key, holder, owner, ttl, fences, .. } = request;
        let (pool, limit) = (self.pool()?, Limit::of_a_command());
        let (tokens, ttl, new) = (Value::from(*fences), Value::from(micros(*ttl)), bytes(owner.as_str()));
        let replace = |not_after: i64| {
            let (old, not_after) = (bytes(holder.as_str()), not_after.into());
            vec![tokens.clone(), new.clone(), ttl.clone(), bytes(key), old, not_after]
        };
        let again =
            |not_after: i64| vec![tokens.clone(), ttl.clone(), bytes(key), new.clone(), not_after.into()];
        for _ in 0..2 {
            let replaced = pool.prepared(&self.statements.replace, &replace, limit).await?;
            if let Some(Acquired::Now { first }) = Acquired::of(replaced.number)? {
                self.known.set(key, LockKind::Exclusive);
                return Ok(ReplaceReply::Replaced { fence: Some(first) });
            }
            let repeated = pool.prepared(&self.statements.replace_again, &again, limit).await?;
            if let Some(Acquired::Before { first }) = Acquired::of(repeated.number)? {
                return Ok(ReplaceReply::AlreadyHeld { fence: Some(first) });
            }
            let found = self.look(&pool, key, limit).await?;
            if !found.is_held_by(holder.as_str()) && !found.is_held_by(owner.as_str()) {
                return Ok(ReplaceReply::NotHeld);
            }
        }
        Err(StoreError::later("the statement came too late"))
    }

    async fn list(&self, request: &List) -> Result<StoredPage, StoreError> {
        self.page(request).await
    }

    async fn diagnose(&self) -> Result<Vec<Finding>, StoreError> {
        self.examine().await
    }

    async fn force_release(&self, key: &str) -> Result<bool, StoreError> {
        let values = |not_after: i64| vec![bytes(key), not_after.into()];
        let is_held = |found: &KeyState| found.holder.is_some();
        // The rows of several holders no longer count.
        let limit = Limit::of_a_command();
        Ok(self.change(key, &self.statements.force_release, &values, is_held, limit).await?.is_none())
    }

    async fn renew_all(&self, requests: &[Renew]) -> Result<Vec<RenewReply>, StoreError> {
        let mut replies = vec![RenewReply::NotHeld; requests.len()];
        let mut left: Vec<usize> = (0..requests.len()).collect();
        let limit = Limit::of_a_command_for(requests.len());
        while let Some(&first) = left.first() {
            let ttl = requests[first].ttl;
            let is_alone = |at: usize| requests[at].kind == LockKind::Exclusive;
            let (some, others): (Vec<usize>, Vec<usize>) =
                left.into_iter().partition(|at| requests[*at].ttl == ttl && is_alone(*at) == is_alone(first));
            left = others;
            let group: Vec<&Renew> = some.iter().map(|at| &requests[*at]).collect();
            if !is_alone(first) {
                let renewed = self.renew_several(&group, micros(ttl), limit).await?;
                for (at, reply) in some.into_iter().zip(renewed) {
                    replies[at] = reply;
                }
                continue;
            }
            let renewed = self.renew_some(&group, micros(ttl), limit).await?;
            for at in some {
                if renewed.contains(requests[at].key.as_bytes()) {
                    replies[at] = RenewReply::Renewed;
                }
            }
        }
        Ok(replies)
    }

    async fn run(&self, events: StoreEvents) {
        events.wanted().await;
        self.stay_connected(&events).await;
    }

    async fn close(&self) {
        let pool = self.link.get();
        self.link.set(None);
        for conn in pool.map(|pool| pool.close()).unwrap_or_default() {
            // Without this, the server would log a lost connection.
            drop(conn.disconnect().await);
        }
    }
}

/// Reads the owner that has published, and its text.
fn said(row: &mysql_async::Row) -> Result<(String, String), StoreError> {
    let text = |at| column::<Vec<u8>>(row, at).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok((text(0)?, text(1)?))
}

/// The parameters of the assignments in `acquire.sql`.
fn assigned(request: &Acquire) -> Values {
    let Acquire { owner, ttl, fences, .. } = request;
    let who = || bytes(owner.as_str());
    vec![who(), Value::from(*fences), who(), who(), Value::from(micros(*ttl))]
}

fn bytes(text: &str) -> Value {
    Value::from(text.as_bytes())
}
