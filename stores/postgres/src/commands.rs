//! The statements, and the meaning of their results.

use std::time::Duration;

use distlock_store::LockKind;
use distlock_store::{AcquireReply, Busy, ReplaceReply, StoreError};

use super::schema::Schema;

/// The texts of the statements, which name the schema.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) acquire: String,
    pub(super) acquire_all: String,
    pub(super) renew: String,
    pub(super) release: String,
    pub(super) replace: String,
    pub(super) inspect: String,
    pub(super) force_release: String,
    /// Parameters: the key, its holder, and the text to publish.
    pub(super) publish: String,
    /// Parameters: the key, and the owner whose text is removed.
    pub(super) unpublish: String,
    /// Returns the text that was published under a key.
    pub(super) published: String,
    /// Parameters: the key to begin after, and how many rows to check. Removes the rows of keys that have been free for
    /// a day. Returns the key to continue after. NULL: there are no more rows, or another process removes them.
    pub(super) prune: String,
    /// The waiters of a key, the next one first.
    pub(super) waiters: String,
    /// Parameters: the first key, the end of the keys, how many locks to return, and how many rows to read. Returns
    /// locks in the order of their keys, with a row for each holder and then for each waiter.
    pub(super) list: String,
    /// The names of the connections of distlock.
    pub(super) connections: String,
}

const WAITERS: &str = "\
    SELECT w.owner FROM @.waiter_1 w WHERE w.key = $2 AND w.dies > clock_timestamp() AND clock_timestamp() < $1 \
    ORDER BY w.place LIMIT 1000";

/// Reads the first `$5` keys from `$2` on, before `$3`. Returns those that are held or have waiters, `$4` at most. If
/// there may be more keys, the last row is the last key that was read, without a kind.
const LIST: &str = "\
    WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now), batch AS MATERIALIZED (\
        SELECT key, kind, owner, expires FROM @.lock_1 \
        WHERE (SELECT now FROM t) < $1 AND key >= $2 AND key < $3 ORDER BY key LIMIT $5), \
    page AS MATERIALIZED (\
        SELECT l.* FROM batch l, t WHERE l.kind = 0 AND l.owner IS NOT NULL AND l.expires > t.now \
            OR l.kind <> 0 AND EXISTS (SELECT FROM @.holder_1 o WHERE o.key = l.key AND o.expires > t.now) \
            OR EXISTS (SELECT FROM @.waiter_1 w WHERE w.key = l.key AND w.dies > t.now) \
        ORDER BY l.key LIMIT $4) \
    SELECT p.key, p.kind, h.owner, (extract(epoch FROM h.expires - t.now) * 1000000)::bigint, 0::bigint AS place \
    FROM page p, t, LATERAL (\
        SELECT p.owner, p.expires WHERE p.kind = 0 AND p.owner IS NOT NULL \
        UNION ALL SELECT o.owner, o.expires FROM @.holder_1 o WHERE o.key = p.key AND p.kind <> 0\
    ) h WHERE h.expires > t.now \
    UNION ALL SELECT p.key, p.kind, w.owner, NULL, w.place \
    FROM page p, t, @.waiter_1 w WHERE w.key = p.key AND w.dies > t.now \
    UNION ALL SELECT z.key, NULL, NULL, NULL, NULL FROM (SELECT key FROM batch ORDER BY key OFFSET $5 - 1) z \
    ORDER BY 1, 5";

/// The pages follow the primary key. Every acquisition and renewal would have to write an index on `expires`; without
/// it, they write no index (HOT). The lock on the row of floor_1 lets one process at a time remove rows. The same
/// transaction raises the floor, and make_row_1 waits for that before it reads the floor. The rows that dead processes
/// left in the other tables, and the texts of keys that have no row, are removed with the first page.
const PRUNE: &str = "\
    WITH turn AS MATERIALIZED (SELECT FROM @.floor_1 WHERE clock_timestamp() < $1 FOR UPDATE SKIP LOCKED), \
    page AS MATERIALIZED (\
        SELECT key FROM @.lock_1 WHERE key > $2 AND EXISTS (SELECT FROM turn) ORDER BY key LIMIT $3), \
    idle AS MATERIALIZED (\
        SELECT key FROM @.lock_1 WHERE key > $2 AND key <= (SELECT key FROM page ORDER BY key DESC LIMIT 1) \
            AND expires < statement_timestamp() - interval '1 day' FOR UPDATE SKIP LOCKED), \
    gone AS (DELETE FROM @.lock_1 WHERE key IN (SELECT key FROM idle) RETURNING fence), \
    raised AS (UPDATE @.floor_1 f SET fence = h.fence FROM (SELECT max(fence) AS fence FROM gone) h \
        WHERE f.fence < h.fence), \
    waiters AS (DELETE FROM @.waiter_1 WHERE $2 = '' AND EXISTS (SELECT FROM turn) \
        AND dies < statement_timestamp() - interval '1 hour'), \
    holders AS (DELETE FROM @.holder_1 WHERE $2 = '' AND EXISTS (SELECT FROM turn) \
        AND expires < statement_timestamp() - interval '1 hour'), \
    texts AS (DELETE FROM @.holder_1 h WHERE $2 = '' AND EXISTS (SELECT FROM turn) AND h.key >= decode('ff', 'hex') \
        AND NOT EXISTS (SELECT FROM @.lock_1 l WHERE l.key = substring(h.key FROM 2))) \
    SELECT (SELECT key FROM page ORDER BY key OFFSET $3 - 1)";

/// The text of a holder is a row of holder_1 under a key that no lock can have, because the key is not valid text. So
/// no administrator has to create another table. It stays until the next holder of the key publishes, or until the row
/// of the key is removed. (A literal `'\\xff'` would depend on `standard_conforming_strings`.)
const PUBLISH: &str = "\
    WITH held AS MATERIALIZED (SELECT FROM @.lock_1 WHERE key = $2 AND owner = $3 AND clock_timestamp() < $1 \
        FOR NO KEY UPDATE), \
    gone AS (DELETE FROM @.holder_1 WHERE key = decode('ff', 'hex') || $2 AND owner <> $4 AND EXISTS (SELECT FROM held)), \
    kept AS (INSERT INTO @.holder_1 (key, owner, expires) \
        SELECT decode('ff', 'hex') || $2, $4, 'infinity' WHERE EXISTS (SELECT FROM held) ON CONFLICT DO NOTHING) \
    SELECT EXISTS (SELECT FROM held)";

/// The owner and a line end come before the text.
const UNPUBLISH: &str = "\
    WITH gone AS (DELETE FROM @.holder_1 WHERE key = decode('ff', 'hex') || $2 AND left(owner, length($3) + 1) = $3 || chr(10) \
        AND clock_timestamp() < $1 RETURNING 1) \
    SELECT EXISTS (SELECT FROM gone)";

/// A statement, because a function would need a new revision, which not every role may install. The row is locked
/// before the statement looks for a transaction that asserts it (see is_asserted_1). A statement that arrives too late
/// finds nothing, and reports it.
const REPLACE: &str = "\
    WITH t AS MATERIALIZED (SELECT @.settle_1($2) AS settled, @.fence_durably_1($7) AS durable), \
    held AS MATERIALIZED (SELECT l.owner, l.fence FROM t, @.lock_1 l WHERE l.key = $3 AND l.kind = 0 \
        AND l.owner IN ($4, $5) AND l.expires > clock_timestamp() AND clock_timestamp() < $1 \
        FOR NO KEY UPDATE OF l), \
    found AS MATERIALIZED (SELECT owner, fence, owner <> $5 AND @.is_asserted_1($3) AS is_asserted FROM held), \
    done AS (UPDATE @.lock_1 l SET owner = $5, fence = l.fence + $7, \
            fence_from = CASE WHEN h.owner = $5 THEN l.fence_from ELSE l.fence + 1 END, \
            expires = greatest(CASE WHEN h.owner = $5 THEN l.expires END, clock_timestamp() + @.ms_1($6)) \
        FROM found h WHERE l.key = $3 AND NOT h.is_asserted) \
    SELECT coalesce((SELECT CASE WHEN is_asserted THEN 'asserted' WHEN owner = $5 THEN 'held ' || fence + 1 \
        ELSE 'acquired ' || fence + 1 END FROM found), \
        CASE WHEN clock_timestamp() < $1 THEN 'free' ELSE 'late' END)";

const PUBLISHED: &str = "\
    SELECT owner FROM @.holder_1 WHERE key = decode('ff', 'hex') || $2 AND clock_timestamp() < $1";

const CONNECTIONS: &str = "\
    SELECT DISTINCT application_name FROM pg_catalog.pg_stat_activity \
    WHERE application_name LIKE 'distlock/%' AND clock_timestamp() < $1";

impl Statements {
    /// In each statement, `$1` is the time after which it is refused. `$2`, if there is one, is its durability.
    pub(super) fn new(schema: &Schema) -> Self {
        let call = |text: &str| schema.fill(&format!("SELECT @.{text}"));
        Statements {
            acquire: call("acquire_1($3, $4, $5, $6, $7, $8, $9, $10, $1, $2)"),
            acquire_all: call("acquire_all_1($3, $4, $5, $6, $7, $8, $9, $1, $2)"),
            renew: call("renew_1($3, $4, $5, $1, $2)"),
            release: call("release_1($3, $4, $5, $1, $2)"),
            replace: schema.fill(REPLACE),
            inspect: schema.fill("SELECT i.* FROM @.inspect_1($2) i WHERE clock_timestamp() < $1"),
            force_release: call("force_release_1($3, $1, $2)"),
            publish: schema.fill(PUBLISH),
            unpublish: schema.fill(UNPUBLISH),
            published: schema.fill(PUBLISHED),
            prune: schema.fill(PRUNE),
            waiters: schema.fill(WAITERS),
            list: schema.fill(LIST),
            connections: CONNECTIONS.to_owned(),
        }
    }
}

/// 0: exclusive. -1: shared. A positive number is the limit.
pub(super) fn number_of(kind: LockKind) -> i32 {
    match kind {
        LockKind::Shared => -1,
        LockKind::Limited { max_holders } => i32::try_from(max_holders).unwrap_or(i32::MAX),
        LockKind::Exclusive => 0,
    }
}

pub(super) fn kind_of(number: i32) -> LockKind {
    match u32::try_from(number) {
        Ok(0) => LockKind::Exclusive,
        Ok(max_holders) => LockKind::Limited { max_holders },
        Err(_) => LockKind::Shared,
    }
}

pub(super) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Reads the result of acquire_1.
pub(super) fn acquired(said: &str) -> Result<AcquireReply, StoreError> {
    let (word, rest) = said.split_once(' ').unwrap_or((said, ""));
    let reply = match word {
        "acquired" => rest.parse().ok().map(|first| AcquireReply::Acquired { fence: Some(first) }),
        "held" => rest.parse().ok().map(|first| AcquireReply::AlreadyHeld { fence: Some(first) }),
        "busy" => busy(rest).map(AcquireReply::Busy),
        "kind" => rest.parse().ok().map(|number| AcquireReply::WrongKind { found: kind_of(number) }),
        _ => None,
    };
    reply.ok_or_else(|| garbled(said))
}

/// Reads the result of the statement that replaces a holder.
pub(super) fn replaced(said: &str) -> Result<ReplaceReply, StoreError> {
    match said {
        "free" => Ok(ReplaceReply::NotHeld),
        "late" => Err(StoreError::later("the statement came too late")),
        "asserted" => {
            Err(StoreError::later("a transaction asserts the lock, and keeps it from others until it ends"))
        }
        said => match acquired(said)? {
            AcquireReply::Acquired { fence } => Ok(ReplaceReply::Replaced { fence }),
            AcquireReply::AlreadyHeld { fence } => Ok(ReplaceReply::AlreadyHeld { fence }),
            _ => Err(garbled(said)),
        },
    }
}

fn busy(words: &str) -> Option<Busy> {
    let mut words = words.splitn(3, ' ');
    let remaining = Duration::from_micros(words.next()?.parse().ok()?);
    let front = words.next()? == "1";
    let busy = Busy::by(words.next()?).remaining(remaining);
    Some(if front { busy } else { busy.behind_others() })
}

pub(super) fn garbled(said: &str) -> StoreError {
    StoreError::unknown(format!("an answer that is not understood: {said:?}"))
}
