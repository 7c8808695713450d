//! The statements, and the meaning of their results.

use std::time::Duration;

use mysql_async::prelude::FromValue;
use mysql_async::{Row, Value};

use super::kinds::kind_of;
use super::schema::Schema;
use distlock_store::{LockKind, StoreError, StoredLock};

/// Parameters of a statement.
pub(super) type Values = Vec<Value>;

/// The owner column of a free key.
pub(super) const FREE: &str = "-";

/// The texts of the statements, which name the tables.
#[derive(Debug)]
pub(super) struct Statements {
    /// owner, tokens, owner, owner, ttl, key, not_after. For a key that has a row.
    pub(super) acquire: String,
    /// key, owner, ttl, tokens, not_after, owner, tokens, owner, owner, ttl. For any key. It also reads a second table,
    /// which doubles its time in MariaDB. So it is used only if no row of the key is known.
    pub(super) acquire_new: String,
    /// ttl, key, owner, not_after.
    pub(super) renew: String,
    /// The next owner column, how long it stays, key, owner, not_after.
    pub(super) release: String,
    /// tokens, owner, ttl, key, holder, not_after.
    pub(super) replace: String,
    /// tokens, ttl, key, owner, not_after. Repeats a replacement of the same owner.
    pub(super) replace_again: String,
    /// key, not_after.
    pub(super) force_release: String,
    /// key, not_after. Ends at once a free row whose end is in the future because the clock was set back.
    pub(super) end_now: String,
    /// key. Always returns one row: the server's clock, the holder, and the remaining time of its lease.
    pub(super) look: String,
    /// The first key, the end of the keys, how many rows to read, how many locks to return, the first key, the end of
    /// the keys, the number of rows less one. Returns each held key, its holder, and the remaining time of its lease.
    /// If there may be more keys, it also returns the last key that was read, as a free one.
    pub(super) list: String,
    /// The text to publish, key, owner, not_after.
    pub(super) publish: String,
    /// key, owner, not_after.
    pub(super) unpublish: String,
    /// key, owner, not_after. The text belongs to no owner from now on, and a later one replaces it. For a user without
    /// the right to remove rows of this table, which earlier versions did not ask for.
    pub(super) disown: String,
    /// key. Returns the owner that has published, and its text.
    pub(super) published: String,
    table: String,
    values: String,
    /// The key to begin after, how many rows to check. Always returns one row: the last key of these rows, their
    /// number, and the highest token among those that have been free for long.
    pub(super) highest_idle: String,
    /// token. Tokens of keys without a row begin above it.
    pub(super) raise_floor: String,
    /// The key to begin after, token, how many. Returns keys that have been free for long, in order.
    pub(super) idle: String,
}

/// In microseconds since 1970, by the server's clock.
pub(super) const CLOCK: &str = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/// Refuses the statement after this time, a parameter, because its sender no longer waits for it.
const IN_TIME: &str = "UTC_TIMESTAMP(6) <= TIMESTAMP '1970-01-01 00:00:00' + INTERVAL ? MICROSECOND";

const IDLE: &str = "expires < UTC_TIMESTAMP(6) - INTERVAL 1 DAY";

impl Statements {
    pub(super) fn new(schema: &Schema) -> Self {
        let acquire = without_comments(include_str!("sql/acquire.sql"));
        Statements {
            acquire: schema.fill(&format!("UPDATE @lock SET\n{acquire}\nWHERE k = ? AND {IN_TIME}")),
            acquire_new: schema.fill(&format!(
                "INSERT INTO @lock (k, owner, expires, fence, fence_from)\n\
                 SELECT ?, ?, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, least + ?, \
                 LAST_INSERT_ID((least + 1) * 4 + 1) DIV 4 \
                 FROM @floor WHERE one = 1 AND {IN_TIME}\n\
                 ON DUPLICATE KEY UPDATE\n{acquire}"
            )),
            renew: schema.fill(&format!(
                "UPDATE @lock SET expires = GREATEST(expires, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND) \
                 WHERE k = ? AND owner = ? AND expires > UTC_TIMESTAMP(6) AND {IN_TIME}"
            )),
            release: schema.fill(&format!(
                "UPDATE @lock SET owner = ?, expires = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, \
                 fence_from = fence + 1 \
                 WHERE k = ? AND owner = ? AND expires > UTC_TIMESTAMP(6) AND {IN_TIME}"
            )),
            // No assignment may read a column that an earlier one has assigned: see acquire.sql, also for the number.
            replace: schema.fill(&format!(
                "UPDATE @lock SET fence_from = LAST_INSERT_ID((fence + 1) * 4 + 1) DIV 4, fence = fence + ?, \
                 owner = ?, expires = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND \
                 WHERE k = ? AND owner = ? AND expires > UTC_TIMESTAMP(6) AND {IN_TIME}"
            )),
            replace_again: schema.fill(&format!(
                "UPDATE @lock SET fence = fence + ? + 0 * LAST_INSERT_ID((fence + 1) * 4 + 2), \
                 expires = GREATEST(expires, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND) \
                 WHERE k = ? AND owner = ? AND expires > UTC_TIMESTAMP(6) AND {IN_TIME}"
            )),
            force_release: schema.fill(&format!(
                "UPDATE @lock SET owner = '-', expires = UTC_TIMESTAMP(6), fence_from = fence + 1 \
                 WHERE k = ? AND owner <> '-' AND expires > UTC_TIMESTAMP(6) AND {IN_TIME}"
            )),
            end_now: schema.fill(&format!(
                "UPDATE @lock SET expires = UTC_TIMESTAMP(6) \
                 WHERE k = ? AND owner = '-' AND expires > UTC_TIMESTAMP(6) AND {IN_TIME}"
            )),
            publish: schema.fill(&format!(
                "INSERT INTO @value (k, owner, said) SELECT k, owner, ? FROM @lock \
                 WHERE k = ? AND owner = ? AND {IN_TIME} \
                 ON DUPLICATE KEY UPDATE owner = VALUES(owner), said = VALUES(said)"
            )),
            unpublish: schema.fill(&format!("DELETE FROM @value WHERE k = ? AND owner = ? AND {IN_TIME}")),
            disown: schema
                .fill(&format!("UPDATE @value SET owner = '' WHERE k = ? AND owner = ? AND {IN_TIME}")),
            published: schema.fill("SELECT owner, said FROM @value WHERE k = ?"),
            look: schema.fill(
                "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), owner, \
                 TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires) \
                 FROM (SELECT 1) AS always LEFT JOIN @lock ON k = ?",
            ),
            list: schema.fill(
                "(SELECT k, owner, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires) \
                 FROM (SELECT k, owner, expires FROM @lock WHERE k >= ? AND k < ? ORDER BY k LIMIT ?) AS batch \
                 WHERE owner <> '-' AND expires > UTC_TIMESTAMP(6) ORDER BY k LIMIT ?) \
                 UNION ALL (SELECT k, '-', 0 FROM @lock WHERE k >= ? AND k < ? ORDER BY k LIMIT 1 OFFSET ?) ORDER BY k",
            ),
            table: schema.fill("@lock"),
            values: schema.fill("@value"),
            // By the primary key, because every acquisition and renewal would have to write an index on `expires`.
            highest_idle: schema.fill(&format!(
                "SELECT MAX(k), COUNT(*), MAX(CASE WHEN {IDLE} THEN fence END) \
                 FROM (SELECT k, expires, fence FROM @lock WHERE k > ? ORDER BY k LIMIT ?) AS page"
            )),
            raise_floor: schema.fill("UPDATE @floor SET least = GREATEST(least, ?) WHERE one = 1"),
            idle: schema.fill(&format!(
                "SELECT k FROM @lock WHERE k > ? AND {IDLE} AND fence <= ? ORDER BY k LIMIT ?"
            )),
        }
    }

    /// Renews several leases, each by its owner, with the same ttl.
    pub(super) fn renew_all(&self, pairs: &[(&str, &str)], ttl: i64, not_after: i64) -> String {
        format!(
            "UPDATE {} SET expires = GREATEST(expires, UTC_TIMESTAMP(6) + INTERVAL {ttl} MICROSECOND) \
             WHERE ({}) AND expires > UTC_TIMESTAMP(6) AND UTC_TIMESTAMP(6) <= {}",
            self.table,
            pairs_of(pairs),
            time(not_after)
        )
    }

    /// Returns the keys of those pairs whose owner holds the key.
    pub(super) fn held_of(&self, pairs: &[(&str, &str)]) -> String {
        format!("SELECT k FROM {} WHERE ({}) AND expires > UTC_TIMESTAMP(6)", self.table, pairs_of(pairs))
    }

    /// Removes the rows of those keys that are still unused.
    pub(super) fn remove(&self, keys: &[Vec<u8>], highest: i64) -> String {
        let keys: Vec<String> = keys.iter().map(|key| hex(key)).collect();
        format!(
            "DELETE FROM {} WHERE k IN ({}) AND {IDLE} AND fence <= {highest}",
            self.table,
            keys.join(",")
        )
    }

    /// Removes the texts of those keys that have no row.
    pub(super) fn remove_values(&self, keys: &[Vec<u8>]) -> String {
        let Statements { table, values, .. } = self;
        let keys: Vec<String> = keys.iter().map(|key| hex(key)).collect();
        format!(
            "DELETE FROM {values} WHERE k IN ({}) \
             AND NOT EXISTS (SELECT 1 FROM {table} AS l WHERE l.k = {values}.k)",
            keys.join(",")
        )
    }
}

fn pairs_of(pairs: &[(&str, &str)]) -> String {
    let pair = |(key, owner): &(&str, &str)| {
        format!("k = {} AND owner = {}", hex(key.as_bytes()), hex(owner.as_bytes()))
    };
    pairs.iter().map(pair).collect::<Vec<_>>().join(" OR ")
}

/// The text without its comments.
pub(super) fn without_comments(sql: &str) -> String {
    sql.lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n")
}

/// A time of the server's clock, as a literal for a statement.
pub(super) fn time(micros: i64) -> String {
    format!("TIMESTAMP '1970-01-01 00:00:00' + INTERVAL {micros} MICROSECOND")
}

/// Any bytes, as a literal for a statement.
pub(super) fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("x'{digits}'")
}

pub(super) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// The result of a statement that acquires a lock, from its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acquired {
    Now { first: u64 },
    Before { first: u64 },
    Busy { remaining: Duration },
}

impl Acquired {
    /// `None`: the statement has done nothing. It was too late, or it needs a row and there is none.
    pub(super) fn of(number: Option<u64>) -> Result<Option<Self>, StoreError> {
        let number = number.unwrap_or(0);
        let value = number / 4;
        match number % 4 {
            _ if number == 0 => Ok(None),
            1 => Ok(Some(Acquired::Now { first: value })),
            2 => Ok(Some(Acquired::Before { first: value })),
            3 => Ok(Some(Acquired::Busy { remaining: Duration::from_micros(value) })),
            _ => Err(garbled(&number.to_string())),
        }
    }
}

/// The state of a key, from a look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyState {
    /// The server's clock.
    pub(super) clock: i64,
    /// The holder, and the remaining time of its lease. With several holders, the value in the owner column of the key.
    pub(super) holder: Option<(String, Duration)>,
    /// The key is free, although its end is in the future: the clock was set back after its release.
    pub(super) ends_ahead: bool,
}

impl KeyState {
    pub(super) fn of(rows: &[Row]) -> Result<Self, StoreError> {
        let row = rows.first().ok_or_else(|| garbled("no row"))?;
        let clock = column(row, 0)?;
        let (owner, remaining): (Option<Vec<u8>>, Option<i64>) = (column(row, 1)?, column(row, 2)?);
        let lasting = owner.zip(remaining).and_then(|(owner, remaining)| {
            let owner = String::from_utf8_lossy(&owner).into_owned();
            let remaining = u64::try_from(remaining).ok().filter(|remaining| *remaining > 0)?;
            Some((owner, Duration::from_micros(remaining)))
        });
        let ends_ahead = lasting.as_ref().is_some_and(|(owner, _)| owner == FREE);
        Ok(KeyState { clock, holder: lasting.filter(|_| !ends_ahead), ends_ahead })
    }

    pub(super) fn is_held_by(&self, owner: &str) -> bool {
        self.holder.as_ref().is_some_and(|(holder, _)| holder == owner)
    }

    /// Whether several owners may hold the key, as it is locked now.
    pub(super) fn is_several(&self) -> bool {
        self.holder.as_ref().is_some_and(|(holder, _)| kind_of(holder) != LockKind::Exclusive)
    }
}

/// A key that is held.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) key: String,
    pub(super) owner: String,
    pub(super) remaining: Duration,
}

impl Held {
    pub(super) fn of(row: &Row) -> Result<Self, StoreError> {
        let (key, owner, remaining): (Vec<u8>, Vec<u8>, i64) =
            (column(row, 0)?, column(row, 1)?, column(row, 2)?);
        Ok(Held {
            key: String::from_utf8(key).map_err(|error| garbled(&error.to_string()))?,
            owner: String::from_utf8_lossy(&owner).into_owned(),
            remaining: Duration::from_micros(u64::try_from(remaining).unwrap_or(0)),
        })
    }

    /// Adds it as a holder of this lock.
    pub(super) fn onto(lock: StoredLock, held: Held) -> StoredLock {
        lock.holder(held.owner, Some(held.remaining))
    }
}

pub(super) fn column<T: FromValue>(row: &Row, at: usize) -> Result<T, StoreError> {
    row.get_opt(at).and_then(Result::ok).ok_or_else(|| garbled(&format!("column {at}")))
}

/// The next owner column of a key that is released, and how long it stays.
pub(super) fn after(keep: Option<Duration>) -> (&'static str, i64) {
    keep.map_or((FREE, 0), |keep| (distlock_store::KEPT, micros(keep)))
}

pub(super) fn garbled(said: &str) -> StoreError {
    StoreError::unknown(format!("an answer that is not understood: {said:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_an_acquisition_says_everything() {
        let of = |number| Acquired::of(number).unwrap();
        assert_eq!((of(None), of(Some(0))), (None, None));
        assert_eq!(of(Some(5)), Some(Acquired::Now { first: 1 }));
        assert_eq!(of(Some(10)), Some(Acquired::Before { first: 2 }));
        // A lease that ends at this moment.
        assert_eq!(of(Some(3)), Some(Acquired::Busy { remaining: Duration::ZERO }));
        let highest = (1 << 53) - 1;
        assert_eq!(of(Some(highest * 4 + 1)), Some(Acquired::Now { first: highest }));
        assert!(Acquired::of(Some(8)).is_err());
    }

    #[test]
    fn keys_of_any_text_are_written_as_digits() {
        let statements = Statements::new(&Schema::with_prefix("t_").unwrap());
        let sql = statements.held_of(&[("a'b\\", "dl1:x:1"), ("\u{0}", "o")]);
        assert!(sql.contains("k = x'6127625c' AND owner = x'646c313a783a31' OR k = x'00'"), "{sql}");
        assert!(sql.contains("`t_lock_1`"), "{sql}");
    }

    /// The client would treat `:name` in a comment as a named parameter.
    #[test]
    fn no_statement_has_a_comment_in_it() {
        let statements = Statements::new(&Schema::with_prefix("distlock_").unwrap());
        for (sql, parameters) in [(&statements.acquire, 7), (&statements.acquire_new, 10)] {
            assert!(!sql.contains("--") && !sql.contains('@'), "{sql}");
            assert_eq!(sql.matches('?').count(), parameters, "{sql}");
        }
    }
}
