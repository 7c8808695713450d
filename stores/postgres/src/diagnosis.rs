//! Risks for locks on a server, and causes of slowness.

use std::collections::HashMap;

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use super::PostgresStore;
use super::commands::garbled;
use super::link::Pool;
use super::prepared::Parameter;
use super::url::Listening;
use distlock_store::Severity::{Fault, Fine, Note, Warning};
use distlock_store::{Finding, StoreError};

const SETTINGS: &str =
    "SELECT name, setting FROM pg_catalog.pg_settings WHERE clock_timestamp() < $1 AND name = ANY($2)";
const NAMES: &[&str] = &[
    "autovacuum",
    "fsync",
    "full_page_writes",
    "idle_session_timeout",
    "statement_timeout",
    "synchronous_commit",
];

/// The sessions and slots that prevent the removal of the oldest row versions, and how many transactions have begun
/// since then. For an ordinary role, the kind of another role's session is NULL.
const OLDEST: &str = "\
    SELECT h.what, h.since FROM (\
        SELECT 'the transaction of process ' || pid AS what, age(backend_xmin)::bigint AS since \
        FROM pg_catalog.pg_stat_activity WHERE pid <> pg_backend_pid() \
            AND (datname IS NULL OR datname = current_database()) AND backend_type IS DISTINCT FROM 'autovacuum worker' \
        UNION ALL SELECT 'the prepared transaction `' || gid || '`', age(transaction)::bigint \
        FROM pg_catalog.pg_prepared_xacts WHERE database = current_database() \
        UNION ALL SELECT 'the replication slot `' || slot_name || '`', age(xmin)::bigint \
        FROM pg_catalog.pg_replication_slots\
    ) h WHERE h.since IS NOT NULL AND clock_timestamp() < $1 ORDER BY h.since DESC LIMIT 1";

/// The permissions on distlock's tables that the role lacks.
const MISSING: &str = "\
    SELECT p || ' on ' || t FROM unnest(ARRAY['@.lock_1', '@.holder_1', '@.waiter_1', '@.floor_1']) t, \
    unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p \
    WHERE NOT has_table_privilege(t, p) AND clock_timestamp() < $1";

/// The numbers of dead and of live rows in distlock's tables.
const ROWS: &str = "\
    SELECT coalesce(sum(n_dead_tup), 0)::bigint, coalesce(sum(n_live_tup), 0)::bigint \
    FROM pg_catalog.pg_stat_user_tables WHERE clock_timestamp() < $1 AND relid IN \
    ('@.lock_1'::regclass, '@.holder_1'::regclass, '@.waiter_1'::regclass, '@.floor_1'::regclass)";

/// Each acquisition leaves a dead row until the oldest transaction has ended. From this number of transactions on,
/// commands for a busy key read noticeably more pages.
const HELD_BACK: i64 = 100_000;
/// With the default settings, autovacuum runs before there are this many dead rows.
const MANY_DEAD: i64 = 100_000;
/// A statement may wait for its row for 500 ms, and then needs time to be executed.
const SHORTEST_STATEMENT: u64 = 1_000;
/// A connection is idle while its program holds no lock.
const SHORTEST_SESSION: u64 = 60_000;

impl PostgresStore {
    pub(super) async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        let pool = self.pool()?;
        let parameters: [Parameter<'_>; 1] = [(&NAMES, Type::TEXT_ARRAY)];
        let rows = pool.ask(SETTINGS, &parameters).await?;
        let pairs = rows.iter().map(|row| Ok((read(row, 0)?, read(row, 1)?)));
        let settings: HashMap<String, String> = pairs.collect::<Result<_, StoreError>>()?;
        let mut found = of_settings(&settings, self.config.durability.as_deref());
        // A role may have no permission for some of these views. Their findings are left out.
        let schema = &self.config.schema;
        if let Ok(rows) = pool.ask(&schema.fill(MISSING), &[]).await {
            let missing = rows.iter().map(|row| read(row, 0)).collect::<Result<Vec<String>, _>>()?;
            found.push(permissions(&missing, &schema.grants()));
        }
        if let Ok(rows) = pool.ask(OLDEST, &[]).await {
            let first = rows.first().map(|row| Ok::<_, StoreError>((read(row, 0)?, read(row, 1)?)));
            found.push(oldest(first.transpose()?));
        }
        if let Ok(rows) = pool.ask(&schema.fill(ROWS), &[]).await
            && let Some(row) = rows.first()
        {
            found.push(dead_rows(read(row, 0)?, read(row, 1)?));
        }
        found.push(self.waiters(&pool).await?);
        Ok(found)
    }

    /// How the waiters learn of a release.
    async fn waiters(&self, pool: &Pool) -> Result<Finding, StoreError> {
        let is_pooled = pool.is_pooled().await?;
        let finding = |severity, text: &str| Finding::new(severity, "waiters", text);
        Ok(match (&self.config.listening, is_pooled) {
            (Listening::At(_), _) => finding(Fine, "are notified over a connection of their own"),
            (Listening::Here, false) => finding(Fine, "are notified"),
            (Listening::Here, true) => finding(
                Warning,
                "a pooler gives each transaction another connection: notifications are lost, and waiters poll",
            )
            .remedy("name the server itself by `?listen=postgres://…`, or set `?listen=off`"),
            (Listening::Off, _) => finding(Note, "poll, because the URL says `listen=off`")
                .remedy("name the server itself by `?listen=postgres://…`, if it is reachable"),
        })
    }
}

fn read<T: for<'a> FromSql<'a>>(row: &Row, at: usize) -> Result<T, StoreError> {
    row.try_get(at).map_err(|error| garbled(&error.to_string()))
}

/// `durability` is the URL's setting for acquisitions.
pub(super) fn of_settings(settings: &HashMap<String, String>, durability: Option<&str>) -> Vec<Finding> {
    let is = |name: &str, value: &str| settings.get(name).is_some_and(|found| found == value);
    let number = |name: &str| settings.get(name).and_then(|found| found.parse().ok()).unwrap_or(0_u64);
    let mut found = vec![match (is("fsync", "off"), is("full_page_writes", "off")) {
        (true, _) => Finding::new(
            Fault,
            "fsync",
            "off: a crash of the machine can lose locks and hand out a fencing token twice, or destroy the database",
        )
        .remedy("set fsync = on and reload the server"),
        (_, true) => {
            let text = "full_page_writes off: a crash of the machine can leave half-written pages of the tables";
            Finding::new(Warning, "fsync", text).remedy("set full_page_writes = on and reload the server")
        }
        _ => Finding::new(Fine, "fsync", "on"),
    }];
    let server = settings.get("synchronous_commit").map_or("on", String::as_str);
    let commit = durability.unwrap_or(server);
    found.push(match commit {
        "off" => Finding::new(
            Warning,
            "synchronous_commit",
            "off: a crash of the server can lose the last acquisitions: two holders, whose fencing tokens rise",
        )
        .remedy("set synchronous_commit = on, or name it in the URL: `?synchronous_commit=on`"),
        _ => Finding::new(Fine, "synchronous_commit", commit),
    });
    if is("autovacuum", "off") {
        let finding = Finding::new(Warning, "autovacuum", "off: dead rows stay, and commands become slower");
        found.push(finding.remedy("set autovacuum = on and reload the server"));
    }
    if (1..SHORTEST_STATEMENT).contains(&number("statement_timeout")) {
        let text = format!(
            "statement_timeout is {} ms: a command that waits for its row fails",
            number("statement_timeout")
        );
        found.push(
            Finding::new(Warning, "statement_timeout", text)
                .remedy(format!("set it to {SHORTEST_STATEMENT} ms or more, or to 0, for this role")),
        );
    }
    if (1..SHORTEST_SESSION).contains(&number("idle_session_timeout")) {
        let text = format!(
            "idle_session_timeout is {} ms: idle programs connect again and again",
            number("idle_session_timeout")
        );
        found.push(Finding::new(Note, "idle_session_timeout", text).remedy("set it to 0 for this role"));
    }
    found
}

fn permissions(missing: &[String], grants: &str) -> Finding {
    match missing {
        [] => Finding::new(Fine, "permissions", "the role may use the tables"),
        missing => Finding::new(Fault, "permissions", format!("the role lacks {}", missing.join(", ")))
            .remedy(grants),
    }
}

fn oldest(found: Option<(String, i64)>) -> Finding {
    match found {
        Some((what, since)) if since >= HELD_BACK => {
            let text = format!(
                "{what} is older than {since} others: dead rows cannot be removed, and commands become slower"
            );
            Finding::new(Warning, "oldest transaction", text)
                .remedy("end that transaction, or drop that slot, and limit both (idle_in_transaction_session_timeout)")
        }
        _ => Finding::new(Fine, "oldest transaction", "does not keep dead rows"),
    }
}

fn dead_rows(dead: i64, live: i64) -> Finding {
    let text = format!("{dead} dead rows in the tables of locks, {live} others");
    if dead >= MANY_DEAD && dead > live {
        return Finding::new(Warning, "dead rows", text)
            .remedy("find out why autovacuum does not remove them: an old transaction, or too few workers");
    }
    Finding::new(Fine, "dead rows", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worst(pairs: &[(&str, &str)], durability: Option<&str>) -> (distlock_store::Severity, String) {
        let settings = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let found = of_settings(&settings, durability);
        found.into_iter().map(|finding| (finding.severity, finding.about)).max().unwrap()
    }

    #[test]
    fn what_the_url_says_of_acquisitions_counts_more_than_the_server() {
        let off = [("synchronous_commit", "off")];
        assert_eq!(worst(&off, None), (Warning, "synchronous_commit".to_owned()));
        assert_eq!(worst(&off, Some("on")).0, Fine);
        assert_eq!(worst(&[], Some("off")).0, Warning);
    }

    #[test]
    fn limits_of_time_are_found_if_they_are_short() {
        assert_eq!(worst(&[("statement_timeout", "0")], None).0, Fine);
        assert_eq!(worst(&[("statement_timeout", "1000")], None).0, Fine);
        assert_eq!(worst(&[("statement_timeout", "999")], None).0, Warning);
        assert_eq!(worst(&[("idle_session_timeout", "59999")], None).0, Note);
    }

    #[test]
    fn many_dead_rows_are_found_unless_there_are_more_others() {
        assert_eq!(dead_rows(MANY_DEAD, 1).severity, Warning);
        assert_eq!(dead_rows(MANY_DEAD, MANY_DEAD).severity, Fine);
        assert_eq!(dead_rows(MANY_DEAD - 1, 1).severity, Fine);
    }
}
