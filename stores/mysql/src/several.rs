//! Locks with several holders: shared and limited locks.
//!
//! Each holder has its own row. The row of the key contains the kind of lock instead of an owner, and lasts as long as
//! the last holder's row. For an exclusive request, it is a row that another owner holds, so an exclusive lock needs no
//! additional statement. The rows of holders count only while the row of the key has this kind.

use super::MysqlStore;
use super::kinds::{kind_of, written};
use super::link::{Limit, Pool, Statement};
use super::schema::Schema;
use super::statements::{Acquired, Held, KeyState, column, garbled, hex, micros, time, without_comments};
use distlock_store::{
    Acquire, AcquireReply, Busy, KEPT, LockKind, Release, Renew, RenewReply, StoreError, StoredLock,
};

/// The texts of these statements. Each text has several statements, so it cannot be prepared.
#[derive(Debug)]
pub(super) struct Texts {
    enter: String,
    make_row: String,
    leave: String,
    keep: String,
    renew: String,
    holders: String,
    /// Removes the rows of dead processes. No process needs a holder whose lease ended a day ago, whatever the row of
    /// its key contains.
    pub(super) remove: String,
}

impl Texts {
    pub(super) fn new(schema: &Schema) -> Self {
        Texts {
            enter: schema.fill(&without_comments(include_str!("sql/enter.sql"))),
            make_row: schema.fill(
                "INSERT INTO @lock (k, owner, expires, fence, fence_from) \
                 SELECT {key}, '-', UTC_TIMESTAMP(6), least, least + 1 FROM @floor WHERE one = 1 \
                 ON DUPLICATE KEY UPDATE fence = fence;",
            ),
            leave: schema.fill(&without_comments(include_str!("sql/leave.sql"))),
            keep: schema.fill(
                "INSERT INTO @holder (k, owner, expires) SELECT {key}, CONCAT({kept}, ':', {owner}), \
                 UTC_TIMESTAMP(6) + INTERVAL {time} MICROSECOND FROM DUAL WHERE @distlock_said = 1 \
                 ON DUPLICATE KEY UPDATE expires = UTC_TIMESTAMP(6) + INTERVAL {time} MICROSECOND;",
            ),
            // The row of the key is locked before the rows of its holders, as in the other texts. A holder that the
            // second statement returns, in time, was renewed, because the first statement began before it.
            renew: schema.fill(
                "UPDATE @lock AS l FORCE INDEX (PRIMARY) \
                 STRAIGHT_JOIN @holder AS h FORCE INDEX (PRIMARY) ON h.k = l.k \
                 SET l.expires = GREATEST(l.expires, UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND), \
                 h.expires = GREATEST(h.expires, UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND) \
                 WHERE {held} AND UTC_TIMESTAMP(6) <= {not_after}; \
                 SELECT h.k, h.owner, UTC_TIMESTAMP(6) <= {not_after} \
                 FROM @lock AS l STRAIGHT_JOIN @holder AS h ON h.k = l.k WHERE {held}",
            ),
            holders: schema.fill(
                "SELECT k, owner, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires) FROM @holder \
                 WHERE k IN ({keys}) AND expires > UTC_TIMESTAMP(6) ORDER BY k, expires DESC LIMIT {most}",
            ),
            remove: schema
                .fill("DELETE FROM @holder WHERE expires < UTC_TIMESTAMP(6) - INTERVAL 1 DAY LIMIT 1000"),
        }
    }

    fn enter(&self, request: &Acquire, has_row: bool, not_after: i64) -> String {
        let (kind, most) = written(request.kind);
        let make_row = if has_row { "" } else { &self.make_row };
        self.enter
            .replace("{make_row}", make_row)
            .replace("{key}", &hex(request.key.as_bytes()))
            .replace("{owner}", &hex(request.owner.as_str().as_bytes()))
            .replace("{ttl}", &micros(request.ttl).to_string())
            .replace("{kind}", &hex(kind.as_bytes()))
            .replace("{most}", &most.to_string())
            .replace("{not_after}", &time(not_after))
    }

    fn leave(&self, request: &Release, not_after: i64) -> String {
        let keep = request.keep.map(|keep| {
            let kept = self.keep.replace("{kept}", &hex(KEPT.as_bytes()));
            kept.replace("{time}", &micros(keep).to_string())
        });
        self.leave
            .replace("{keep}", &keep.unwrap_or_default())
            .replace("{key}", &hex(request.key.as_bytes()))
            .replace("{owner}", &hex(request.owner.as_str().as_bytes()))
            .replace("{not_after}", &time(not_after))
    }

    fn renew(&self, requests: &[&Renew], ttl: i64, not_after: i64) -> String {
        let keys: Vec<String> = requests.iter().map(|request| hex(request.key.as_bytes())).collect();
        let holders = requests.iter().map(|request| {
            let owner = hex(request.owner.as_str().as_bytes());
            format!("h.k = {} AND h.owner = {owner}", hex(request.key.as_bytes()))
        });
        let held = format!(
            "l.k IN ({}) AND ({}) AND (l.owner = 'dl1:s' OR l.owner LIKE 'dl1:p:%') \
             AND l.expires > UTC_TIMESTAMP(6) AND h.expires > UTC_TIMESTAMP(6)",
            keys.join(","),
            holders.collect::<Vec<_>>().join(" OR ")
        );
        self.renew
            .replace("{held}", &held)
            .replace("{ttl}", &ttl.to_string())
            .replace("{not_after}", &time(not_after))
    }

    fn holders(&self, keys: &[&str], most: u32) -> String {
        let keys: Vec<String> = keys.iter().map(|key| hex(key.as_bytes())).collect();
        self.holders.replace("{keys}", &keys.join(",")).replace("{most}", &most.to_string())
    }
}

impl MysqlStore {
    /// Acquires a lock that several may hold.
    pub(super) async fn enter(
        &self,
        pool: &Pool,
        request: &Acquire,
        has_row: bool,
        limit: Limit,
    ) -> Result<Option<Acquired>, StoreError> {
        let enter = |not_after| self.texts.enter(request, has_row, not_after);
        Acquired::of(Some(self.said(pool, &enter, limit).await?))
    }

    /// Ends the lease of one of several holders. Returns whether there was one.
    pub(super) async fn leave(
        &self,
        pool: &Pool,
        request: &Release,
        limit: Limit,
    ) -> Result<bool, StoreError> {
        let key = &*request.key;
        for _ in 0..2 {
            let leave = |not_after| self.texts.leave(request, not_after);
            if self.said(pool, &leave, limit).await? == 1 {
                return Ok(true);
            }
            let found = self.look(pool, key, limit).await?;
            let holders =
                if found.is_several() { self.holders(pool, &[key], u32::MAX, limit).await? } else { vec![] };
            if !holders.iter().any(|holder| holder.owner == request.owner.as_str()) {
                return Ok(false);
            }
            // The server's clock was set, or this machine slept.
        }
        Err(StoreError::later("the statement came too late"))
    }

    async fn said(
        &self,
        pool: &Pool,
        sql: &(dyn Fn(i64) -> String + Sync),
        limit: Limit,
    ) -> Result<u64, StoreError> {
        let answer = pool.ask(Statement::Text(sql), limit).await?;
        column(answer.rows.first().ok_or_else(|| garbled("no row"))?, 0)
    }

    /// Renews the leases of holders that share their key, all with the same ttl.
    pub(super) async fn renew_several(
        &self,
        requests: &[&Renew],
        ttl: i64,
        limit: Limit,
    ) -> Result<Vec<RenewReply>, StoreError> {
        let pool = self.pool()?;
        for _ in 0..2 {
            let renew = |not_after| self.texts.renew(requests, ttl, not_after);
            let answer = pool.ask(Statement::Text(&renew), limit).await?;
            let held: Vec<(Vec<u8>, Vec<u8>, bool)> = answer
                .rows
                .iter()
                .map(|row| Ok((column(row, 0)?, column(row, 1)?, column(row, 2)?)))
                .collect::<Result<_, StoreError>>()?;
            if held.iter().all(|(_, _, in_time)| *in_time) {
                let is_held = |request: &Renew| {
                    held.iter().any(|(key, owner, _)| {
                        *key == request.key.as_bytes() && *owner == request.owner.as_str().as_bytes()
                    })
                };
                let reply = |request: &&Renew| match is_held(request) {
                    true => RenewReply::Renewed,
                    false => RenewReply::NotHeld,
                };
                return Ok(requests.iter().map(reply).collect());
            }
            let first = requests.first().map_or("", |request| &request.key);
            self.look(&pool, first, limit).await?;
        }
        Err(StoreError::later("the renewal came too late"))
    }

    /// The holders of keys with several holders, for each key the longest lease first.
    pub(super) async fn holders(
        &self,
        pool: &Pool,
        keys: &[&str],
        most: u32,
        limit: Limit,
    ) -> Result<Vec<Held>, StoreError> {
        let holders = |_| self.texts.holders(keys, most);
        let answer = pool.ask(Statement::Text(&holders), limit).await?;
        answer.rows.iter().map(Held::of).collect()
    }

    /// The reply to a request that finds the key in this state. `None`: no holder excludes it.
    pub(super) async fn obstacle(
        &self,
        pool: &Pool,
        request: &Acquire,
        found: KeyState,
        limit: Limit,
    ) -> Result<Option<AcquireReply>, StoreError> {
        let Some((holder, remaining)) = found.holder else { return Ok(None) };
        let (key, owner) = (&*request.key, request.owner.as_str());
        let busy =
            |holder: &Held| AcquireReply::Busy(Busy::by(holder.owner.as_str()).remaining(holder.remaining));
        Ok(match (kind_of(&holder), request.kind) {
            (LockKind::Shared, LockKind::Shared) => None,
            // All holders must release the lock.
            (LockKind::Shared, LockKind::Exclusive) => {
                self.holders(pool, &[key], 1, limit).await?.first().map(busy)
            }
            (LockKind::Limited { max_holders }, wanted) if kind_of(&holder) == wanted => {
                let holders = self.holders(pool, &[key], u32::MAX, limit).await?;
                let is_ours = holders.iter().any(|holder| holder.owner == owner);
                let is_room = u32::try_from(holders.len()).is_ok_and(|holders| holders < max_holders);
                if is_ours || is_room { None } else { holders.last().map(busy) }
            }
            (LockKind::Exclusive, LockKind::Exclusive) if holder == owner => None,
            (LockKind::Exclusive, LockKind::Limited { .. }) if holder != KEPT => {
                Some(AcquireReply::WrongKind { found: LockKind::Exclusive })
            }
            (LockKind::Exclusive, _) => Some(AcquireReply::Busy(Busy::by(holder).remaining(remaining))),
            (found, _) => Some(AcquireReply::WrongKind { found }),
        })
    }

    /// Each holder of a key with several holders.
    pub(super) async fn held_by_several(
        &self,
        pool: &Pool,
        key: &str,
        kind: LockKind,
        limit: Limit,
    ) -> Result<Option<StoredLock>, StoreError> {
        let holders = self.holders(pool, &[key], u32::MAX, limit).await?;
        let lock = (!holders.is_empty()).then(|| StoredLock::new(kind));
        Ok(lock.map(|lock| holders.into_iter().fold(lock, Held::onto)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use distlock_store::Owner;

    #[test]
    fn a_text_has_a_value_in_each_of_its_places() {
        let texts = Texts::new(&Schema::with_prefix("t_").unwrap());
        let (owner, ttl) = (Owner::new("a", 1), Duration::from_secs(1));
        let mut texts_with_values = vec![texts.holders(&["k", "l"], 7)];
        for kind in [LockKind::Shared, LockKind::Limited { max_holders: 2 }] {
            let mut acquire = Acquire::new("k", &owner, ttl);
            acquire.kind = kind;
            texts_with_values.extend([true, false].map(|has_row| texts.enter(&acquire, has_row, 5)));
        }
        let mut release = Release::new("k", &owner);
        texts_with_values.push(texts.leave(&release, 5));
        release.keep = Some(ttl);
        texts_with_values.push(texts.leave(&release, 5));
        let renew = Renew::new("k", &owner, ttl);
        texts_with_values.push(texts.renew(&[&renew, &renew], 1_000, 5));
        for text in texts_with_values {
            let is_filled =
                !text.contains(['{', '}']) && !text.contains("--") && text.contains("`t_holder_1`");
            assert!(is_filled, "{text}");
        }
    }
}
