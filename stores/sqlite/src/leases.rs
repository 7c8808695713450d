//! The operations of the contract on the rows of a key. Each is one transaction.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::file::TransactionTime;
use distlock_store::engine::Who;
use distlock_store::{
    Acquire, AcquireReply, Busy, KEPT, List, LockKind, OwnerDetails, Publish, Release, Renew, Replace,
    ReplaceReply, StoredLock, StoredPage,
};

/// A lease that has not expired.
struct Lease {
    owner: String,
    kind: LockKind,
    began: i64,
    ends: i64,
    details: OwnerDetails,
}

const COLUMNS: &str = "owner, kind, most, began, ends, host, pid, program, k";

impl Lease {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        let kind = match row.get(1)? {
            EXCLUSIVE => LockKind::Exclusive,
            SHARED => LockKind::Shared,
            _ => LockKind::Limited { max_holders: row.get(2)? },
        };
        let details = OwnerDetails::default().pid(row.get(6)?);
        let (host, program): (Option<String>, Option<String>) = (row.get(5)?, row.get(7)?);
        let details = host.into_iter().fold(details, OwnerDetails::host);
        let details = program.into_iter().fold(details, OwnerDetails::program);
        Ok(Lease { owner: row.get(0)?, kind, began: row.get(3)?, ends: row.get(4)?, details })
    }

    fn onto(self, lock: StoredLock, now: i64) -> StoredLock {
        let Lease { owner, began, ends, details, .. } = self;
        let lock = lock.holder(&*owner, Some(between(now, ends)));
        // The owner dl1:hold is not a process.
        if owner == KEPT { lock } else { lock.details(owner, details.since(between(began, now))) }
    }
}

const EXCLUSIVE: i64 = 0;
const SHARED: i64 = 1;
const LIMITED: i64 = 2;

/// The columns for the kind and for the maximum number of holders.
fn written(kind: LockKind) -> (i64, u32) {
    match kind {
        LockKind::Shared => (SHARED, u32::MAX),
        LockKind::Limited { max_holders } => (LIMITED, max_holders),
        // The store declares no other kind, so no other kind is requested.
        _ => (EXCLUSIVE, 1),
    }
}

/// The leases of a key, the longest first.
fn leases(db: &Connection, at: &TransactionTime<'_>, key: &str) -> rusqlite::Result<Vec<Lease>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM distlock_lease_1 WHERE k = ?1 AND boot = ?2 AND ends > ?3 ORDER BY ends DESC"
    );
    let mut statement = db.prepare(&sql)?;
    let found = statement.query_map(params![key.as_bytes(), at.boot, at.now], Lease::of)?;
    found.collect()
}

/// The reply to a request that a lease excludes. `None`: no lease excludes it.
fn obstacle(leases: &[Lease], wanted: LockKind, now: i64) -> Option<AcquireReply> {
    let (longest, shortest) = (leases.first()?, leases.last()?);
    let busy =
        |lease: &Lease| Some(AcquireReply::Busy(Busy::by(&*lease.owner).remaining(between(now, lease.ends))));
    match (longest.kind, wanted) {
        (LockKind::Shared, LockKind::Shared) => None,
        // All holders must release the lock.
        (LockKind::Exclusive | LockKind::Shared, LockKind::Exclusive | LockKind::Shared) => busy(longest),
        (LockKind::Limited { max_holders }, LockKind::Limited { max_holders: same })
            if max_holders == same =>
        {
            let is_room = u32::try_from(leases.len()).is_ok_and(|holders| holders < max_holders);
            if is_room { None } else { busy(shortest) }
        }
        (found, _) => Some(AcquireReply::WrongKind { found }),
    }
}

/// The reply to a request after a look. `None`: the lock is free, or this owner may hold it.
pub(super) fn refusal(
    db: &Connection,
    at: &TransactionTime<'_>,
    request: &Acquire,
) -> rusqlite::Result<Option<AcquireReply>> {
    let leases = leases(db, at, &request.key)?;
    let is_ours = leases.iter().any(|lease| lease.owner == request.owner.as_str());
    Ok(if is_ours { None } else { obstacle(&leases, request.kind, at.now) })
}

/// Acquires the lock, or extends the lease if the owner already holds it.
pub(super) fn acquire(
    db: &Connection,
    at: &TransactionTime<'_>,
    request: &Acquire,
    who: &Who,
) -> rusqlite::Result<AcquireReply> {
    let Acquire { key, owner, ttl, kind, fences, .. } = request;
    let (key, owner, ends) = (key.as_bytes(), owner.as_str(), after(at.now, *ttl));
    if extend(db, at, key, owner, ends)? {
        return Ok(AcquireReply::AlreadyHeld { fence: tokens(db, *fences)? });
    }
    db.execute(
        "DELETE FROM distlock_lease_1 WHERE k = ?1 AND NOT (boot = ?2 AND ends > ?3)",
        params![key, at.boot, at.now],
    )?;
    if let Some(reply) = obstacle(&leases(db, at, &request.key)?, *kind, at.now) {
        return Ok(reply);
    }
    let (kind, most) = written(*kind);
    db.execute(
        "INSERT INTO distlock_lease_1 (k, owner, kind, most, boot, began, ends, host, pid, program) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![key, owner, kind, most, at.boot, at.now, ends, who.host, who.pid, who.program],
    )?;
    Ok(AcquireReply::Acquired { fence: tokens(db, *fences)? })
}

/// The first of this many consecutive fencing tokens. All keys share one counter, so no token is forgotten when the
/// rows of its key are removed. The counter is never below the microseconds since 1970, so tokens rise even if the file
/// or the counter's row is removed, or the file is restored from a copy.
fn tokens(db: &Connection, count: u32) -> rusqlite::Result<Option<u64>> {
    if count == 0 {
        return Ok(None);
    }
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let time_of_day = after(0, since_1970);
    let last: i64 = db.query_row(
        "INSERT INTO distlock_fence_1 (one, last) VALUES (1, ?2 + ?1) \
         ON CONFLICT (one) DO UPDATE SET last = max(last, ?2) + ?1 RETURNING last",
        params![count, time_of_day],
        |row| row.get(0),
    )?;
    Ok(u64::try_from(last - i64::from(count) + 1).ok())
}

/// Makes a lease last at least until this time. Returns whether the owner has one.
fn extend(
    db: &Connection,
    at: &TransactionTime<'_>,
    key: &[u8],
    owner: &str,
    ends: i64,
) -> rusqlite::Result<bool> {
    let changed = db.execute(
        "UPDATE distlock_lease_1 SET ends = max(ends, ?5) WHERE k = ?1 AND boot = ?2 AND ends > ?3 AND owner = ?4",
        params![key, at.boot, at.now, owner, ends],
    )?;
    Ok(changed > 0)
}

/// Passes an exclusive lock from the named holder to the owner.
pub(super) fn replace(
    db: &Connection,
    at: &TransactionTime<'_>,
    request: &Replace,
    who: &Who,
) -> rusqlite::Result<ReplaceReply> {
    let Replace { key, holder, owner, ttl, fences, .. } = request;
    let (key, owner, ends) = (key.as_bytes(), owner.as_str(), after(at.now, *ttl));
    if extend(db, at, key, owner, ends)? {
        return Ok(ReplaceReply::AlreadyHeld { fence: tokens(db, *fences)? });
    }
    let changed = db.execute(
        "UPDATE distlock_lease_1 SET owner = ?5, began = ?3, ends = ?6, host = ?7, pid = ?8, program = ?9 \
         WHERE k = ?1 AND boot = ?2 AND ends > ?3 AND owner = ?4 AND kind = ?10",
        params![
            key,
            at.boot,
            at.now,
            holder.as_str(),
            owner,
            ends,
            who.host,
            who.pid,
            who.program,
            EXCLUSIVE
        ],
    )?;
    Ok(if changed > 0 {
        ReplaceReply::Replaced { fence: tokens(db, *fences)? }
    } else {
        ReplaceReply::NotHeld
    })
}

pub(super) fn renew(db: &Connection, at: &TransactionTime<'_>, request: &Renew) -> rusqlite::Result<bool> {
    extend(db, at, request.key.as_bytes(), request.owner.as_str(), after(at.now, request.ttl))
}

/// Returns whether the owner had a lease.
pub(super) fn release(
    db: &Connection,
    at: &TransactionTime<'_>,
    request: &Release,
) -> rusqlite::Result<bool> {
    let (key, owner) = (request.key.as_bytes(), request.owner.as_str());
    let changed = match request.keep {
        Some(keep) => db.execute(
            "UPDATE distlock_lease_1 SET owner = ?5, ends = ?6 WHERE k = ?1 AND boot = ?2 AND ends > ?3 AND owner = ?4",
            params![key, at.boot, at.now, owner, KEPT, after(at.now, keep)],
        )?,
        None => db.execute(
            "DELETE FROM distlock_lease_1 WHERE k = ?1 AND boot = ?2 AND ends > ?3 AND owner = ?4",
            params![key, at.boot, at.now, owner],
        )?,
    };
    Ok(changed > 0)
}

/// Returns whether the lock was held.
pub(super) fn force_release(db: &Connection, at: &TransactionTime<'_>, key: &str) -> rusqlite::Result<bool> {
    let sql = "DELETE FROM distlock_lease_1 WHERE k = ?1 AND boot = ?2 AND ends > ?3";
    Ok(db.execute(sql, params![key.as_bytes(), at.boot, at.now])? > 0)
}

pub(super) fn inspect(
    db: &Connection,
    at: &TransactionTime<'_>,
    key: &str,
) -> rusqlite::Result<Option<StoredLock>> {
    Ok(leases(db, at, key)?.into_iter().fold(None, |lock: Option<StoredLock>, lease| {
        let lock = lock.unwrap_or_else(|| StoredLock::new(lease.kind));
        Some(lease.onto(lock, at.now))
    }))
}

/// Adds the text that the holder has published.
pub(super) fn with_published(
    db: &Connection,
    key: &str,
    lock: Option<StoredLock>,
) -> rusqlite::Result<Option<StoredLock>> {
    let sql = "SELECT owner, said FROM distlock_value_1 WHERE k = ?1";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let found: Option<(String, String)> = db.query_row(sql, params![key.as_bytes()], read).optional()?;
    Ok(match (lock, found) {
        (Some(lock), Some((owner, said))) => Some(lock.published(&owner, said)),
        (lock, _) => lock,
    })
}

/// Does nothing if the owner has lost the lock.
pub(super) fn publish(db: &Connection, at: &TransactionTime<'_>, request: &Publish) -> rusqlite::Result<()> {
    let (key, owner) = (request.key.as_bytes(), request.owner.as_str());
    if leases(db, at, &request.key)?.iter().any(|lease| lease.owner == owner) {
        let sql = "INSERT OR REPLACE INTO distlock_value_1 (k, owner, said) VALUES (?1, ?2, ?3)";
        db.execute(sql, params![key, owner, &*request.value])?;
    }
    Ok(())
}

/// Works even if the owner no longer has the lock.
pub(super) fn unpublish(db: &Connection, request: &Publish) -> rusqlite::Result<()> {
    let sql = "DELETE FROM distlock_value_1 WHERE k = ?1 AND owner = ?2";
    db.execute(sql, params![request.key.as_bytes(), request.owner.as_str()])?;
    Ok(())
}

/// The locks of a page, in the order of their keys' bytes.
pub(super) fn list(
    db: &Connection,
    at: &TransactionTime<'_>,
    request: &List,
) -> rusqlite::Result<StoredPage> {
    let beginning = request.beginning.as_bytes();
    let sql = format!(
        "SELECT {COLUMNS} FROM distlock_lease_1 WHERE k >= ?1 AND (?2 IS NULL OR k > ?2) AND boot = ?3 AND ends > ?4 \
         ORDER BY k, ends DESC"
    );
    let mut statement = db.prepare(&sql)?;
    let after = request.after.as_ref().map(String::as_bytes);
    let mut rows = statement.query(params![beginning, after, at.boot, at.now])?;
    let mut page = StoredPage::new();
    let mut open: Option<(Vec<u8>, StoredLock)> = None;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        let key: Vec<u8> = row.get(8)?;
        if !key.starts_with(beginning) {
            break;
        }
        let lease = Lease::of(row)?;
        open = Some(match open.take() {
            Some((same, lock)) if same == key => (key, lease.onto(lock, at.now)),
            former => {
                page = closed(page, former);
                if count == request.most {
                    return Ok(page.and_more());
                }
                count += 1;
                let lock = StoredLock::new(lease.kind);
                (key, lease.onto(lock, at.now))
            }
        });
    }
    Ok(closed(page, open))
}

fn closed(page: StoredPage, lock: Option<(Vec<u8>, StoredLock)>) -> StoredPage {
    lock.into_iter().fold(page, |page, (key, lock)| page.lock(String::from_utf8_lossy(&key), lock))
}

/// Whether there are rows of expired leases, or values of former holders. This only reads, because their removal blocks
/// processes that write.
pub(super) fn is_to_be_pruned(db: &Connection, at: &TransactionTime<'_>) -> rusqlite::Result<bool> {
    let sql = format!(
        "SELECT 1 FROM distlock_lease_1 WHERE {EXPIRED} UNION ALL SELECT 1 FROM distlock_value_1 WHERE {LEFT_BEHIND} LIMIT 1"
    );
    Ok(db.query_row(&sql, params![at.boot, at.now], |_| Ok(())).optional()?.is_some())
}

/// Returns the number of leases.
pub(super) fn prune(db: &Connection, at: &TransactionTime<'_>) -> rusqlite::Result<usize> {
    let leases =
        db.execute(&format!("DELETE FROM distlock_lease_1 WHERE {EXPIRED}"), params![at.boot, at.now])?;
    db.execute(&format!("DELETE FROM distlock_value_1 WHERE {LEFT_BEHIND}"), [])?;
    Ok(leases)
}

const EXPIRED: &str = "NOT (boot = ?1 AND ends > ?2)";
/// The holder was killed, or could not reach the file, before it removed its value.
const LEFT_BEHIND: &str = "NOT EXISTS (SELECT 1 FROM distlock_lease_1 AS lease \
    WHERE lease.k = distlock_value_1.k AND lease.owner = distlock_value_1.owner)";

fn after(now: i64, time: Duration) -> i64 {
    now.saturating_add(i64::try_from(time.as_micros()).unwrap_or(i64::MAX))
}

fn between(from: i64, to: i64) -> Duration {
    Duration::from_micros(u64::try_from(to.saturating_sub(from)).unwrap_or(0))
}
