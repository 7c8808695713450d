//! Lists the held locks, in the order of their keys' bytes. Waiters poll, so the table has no waiters.

use std::collections::HashMap;

use mysql_async::Value;

use super::MysqlStore;
use super::kinds::kind_of;
use super::link::Limit;
use super::statements::{FREE, Held};
use distlock_store::kit::scan::Scan;
use distlock_store::{List, LockKind, StoreError, StoredLock, StoredPage};

impl MysqlStore {
    /// The keys that are free have rows, too: see `Scan`.
    pub(super) async fn page(&self, request: &List) -> Result<StoredPage, StoreError> {
        let (pool, limit, mut scan) = (self.pool()?, Limit::of_a_command(), Scan::of(request));
        let mut held: Vec<Held> = Vec::new();
        let has_more = loop {
            let most = u64::try_from(request.most - held.len()).unwrap_or(u64::MAX);
            let values = |_| {
                let [first, end] = [&scan.first, &scan.end].map(|key| Value::from(key.as_slice()));
                let (rows, most) = (scan.rows.into(), most.into());
                vec![first.clone(), end.clone(), rows, most, first, end, (scan.rows - 1).into()]
            };
            let answer = pool.prepared(&self.statements.list, &values, limit).await?;
            let found = answer.rows.iter().map(Held::of).collect::<Result<Vec<_>, _>>()?;
            let (last, found): (Vec<_>, Vec<_>) = found.into_iter().partition(|held| held.owner == FREE);
            held.extend(found);
            match last.first() {
                _ if held.len() >= request.most => break true,
                Some(last) if scan.continues(last.key.as_bytes(), held.len())? => {}
                last => break last.is_some(),
            }
        };
        let is_several = |held: &&Held| kind_of(&held.owner) != LockKind::Exclusive;
        let several: Vec<&str> = held.iter().filter(is_several).map(|held| &*held.key).collect();
        let mut holders: HashMap<String, Vec<Held>> = HashMap::new();
        if !several.is_empty() {
            for holder in self.holders(&pool, &several, u32::MAX, limit).await? {
                holders.entry(holder.key.clone()).or_default().push(holder);
            }
        }
        let page = held.into_iter().fold(StoredPage::new(), |page, held| {
            let (key, kind) = (held.key.clone(), kind_of(&held.owner));
            // If the last holder has left since then, the lock has no holder here. It was held when the page began.
            let of_several = holders.remove(&key).unwrap_or_default();
            let shown = if kind == LockKind::Exclusive { vec![held] } else { of_several };
            page.lock(key, shown.into_iter().fold(StoredLock::new(kind), Held::onto))
        });
        Ok(if has_more { page.and_more() } else { page })
    }
}
