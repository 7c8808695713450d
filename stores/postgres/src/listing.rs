//! Lists the locks, their waiters, and the processes.

use std::collections::HashMap;
use std::time::Duration;

use tokio_postgres::types::Type;
use tokio_postgres::{Error, Row};

use super::PostgresStore;
use super::commands::{garbled, kind_of};
use super::link::Pool;
use super::prepared::Parameter;
use distlock_store::kit::scan::Scan;
use distlock_store::{List, OwnerDetails, StoreError, StoredLock, StoredPage};

/// The beginning of the names of this library's connections: `distlock/<client>/<pid>@<host>`.
const CALLED: &str = "distlock/";
/// The server cuts a longer name.
const LONGEST_NAME: usize = 63;

/// The process of each client.
type Places = HashMap<String, OwnerDetails>;

/// The name of the connections of a client.
pub(super) fn connection_name(client: &str) -> String {
    let who = distlock_store::engine::Who::this_process();
    let mut name = format!("{CALLED}{client}");
    let at = format!("/{}@{}", who.pid.unwrap_or_default(), who.host.unwrap_or_default());
    if name.len() + at.len() <= LONGEST_NAME {
        name += &at;
    }
    let end = (0..=LONGEST_NAME.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
    name.truncate(end.unwrap_or(0));
    name
}

pub(super) fn read_name(name: &str) -> Option<(String, OwnerDetails)> {
    let mut parts = name.strip_prefix(CALLED)?.splitn(2, '/');
    let client = parts.next()?.to_owned();
    let (pid, host) = parts.next()?.split_once('@')?;
    Some((client, OwnerDetails::default().host(host).pid(pid.parse().ok()?)))
}

impl PostgresStore {
    /// Adds the waiters, and the processes of all holders and waiters.
    pub(super) async fn with_waiters(&self, key: &str, lock: StoredLock) -> Result<StoredLock, StoreError> {
        let pool = self.pool()?;
        let parameters: [Parameter<'_>; 1] = [(&key.as_bytes(), Type::BYTEA)];
        let rows = pool.ask(&self.statements.waiters, &parameters).await?;
        let mut found = lock;
        for row in &rows {
            let owner: String = row.try_get(0).map_err(odd)?;
            found = found.waiter(owner);
        }
        let places = self.places(&pool).await;
        Ok(found.with_clients(&places))
    }

    /// Adds the text that the holder has published. The value is the holder's name, a line end, and the text.
    pub(super) async fn with_published(&self, key: &str, lock: StoredLock) -> Result<StoredLock, StoreError> {
        let parameters: [Parameter<'_>; 1] = [(&key.as_bytes(), Type::BYTEA)];
        let rows = self.pool()?.ask(&self.statements.published, &parameters).await?;
        rows.iter().try_fold(lock, |lock, row| {
            let text: String = row.try_get(0).map_err(odd)?;
            Ok(match text.split_once('\n') {
                Some((owner, value)) => lock.published(owner, value),
                None => lock,
            })
        })
    }

    /// Locks in the order of their keys. The keys that are free have rows, too: see `Scan`.
    pub(super) async fn page(&self, request: &List) -> Result<StoredPage, StoreError> {
        let (pool, mut scan) = (self.pool()?, Scan::of(request));
        let mut locks: Vec<(String, StoredLock)> = Vec::new();
        let has_more = loop {
            let most = i64::try_from(request.most - locks.len()).unwrap_or(i64::MAX);
            let parameters: [Parameter<'_>; 4] = [
                (&scan.first, Type::BYTEA),
                (&scan.end, Type::BYTEA),
                (&most, Type::INT8),
                (&scan.rows, Type::INT8),
            ];
            let rows = pool.ask(&self.statements.list, &parameters).await?;
            let mut last = None;
            for row in &rows {
                let key: Vec<u8> = row.try_get(0).map_err(odd)?;
                let Some((kind, owner, micros)) = read(row).map_err(odd)? else {
                    last = Some(key);
                    continue;
                };
                let key = String::from_utf8(key).map_err(|error| garbled(&error.to_string()))?;
                let same = locks.pop_if(|(last, _)| *last == key);
                let lock = same.map_or_else(|| StoredLock::new(kind_of(kind)), |(_, lock)| lock);
                let left = micros.map(|micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0)));
                let lock = if left.is_some() { lock.holder(owner, left) } else { lock.waiter(owner) };
                locks.push((key, lock));
            }
            match last {
                _ if locks.len() >= request.most => break true,
                Some(last) if scan.continues(&last, locks.len())? => {}
                last => break last.is_some(),
            }
        };
        let places = if locks.is_empty() { Places::new() } else { self.places(&pool).await };
        let page = locks
            .into_iter()
            .fold(StoredPage::new(), |page, (key, lock)| page.lock(key, lock.with_clients(&places)));
        Ok(if has_more { page.and_more() } else { page })
    }

    /// Empty behind a pooler, and if the URL names the connections.
    async fn places(&self, pool: &Pool) -> Places {
        let rows = pool.ask(&self.statements.connections, &[]).await.unwrap_or_default();
        let names = rows.iter().filter_map(|row| row.try_get::<_, String>(0).ok());
        names.filter_map(|name| read_name(&name)).collect()
    }
}

/// The kind of a lock, an owner, and the remaining time of its lease. `None`: the row is the last key that was read.
fn read(row: &Row) -> Result<Option<(i32, String, Option<i64>)>, Error> {
    let kind: Option<i32> = row.try_get(1)?;
    kind.map(|kind| Ok((kind, row.try_get(2)?, row.try_get(3)?))).transpose()
}

fn odd(error: Error) -> StoreError {
    garbled(&error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_connection_tells_where_its_process_runs_if_there_is_room() {
        let name = connection_name("web.0123");
        assert!(name.len() <= LONGEST_NAME);
        let (client, details) = read_name("distlock/web.0123/4711@host-1").unwrap();
        assert_eq!((&*client, details), ("web.0123", OwnerDetails::default().host("host-1").pid(4711)));
        let long = connection_name(&"x".repeat(80));
        assert!(long.len() == LONGEST_NAME && read_name(&long).is_none());
        assert_eq!(read_name("psql"), None);
    }
}
