//! Lists the held locks, in the order of their keys' bytes. Waiters poll, so the table has no waiters.

use std::collections::HashMap;

use super::MysqlStore;
use super::kinds::kind_of;
use super::link::Limit;
use super::statements::{Held, end_of};
use distlock_store::{List, LockKind, StoreError, StoredLock, StoredPage};

impl MysqlStore {
    pub(super) async fn page(&self, request: &List) -> Result<StoredPage, StoreError> {
        let beginning = request.beginning.as_bytes();
        let most = u64::try_from(request.most).unwrap_or(u64::MAX);
        // No key lies between a key and the same key with a zero byte after it.
        let first = request.after.as_ref().map(|after| [after.as_bytes(), &[0]].concat());
        let first = first.unwrap_or_else(|| beginning.to_vec());
        let values = |_| vec![first.clone().into(), end_of(beginning).into(), most.into()];
        let (pool, limit) = (self.link.pool()?, Limit::of_a_command());
        let answer = self.prepared(&pool, &self.statements.list, &values, limit).await?;
        let held = answer.rows.iter().map(Held::of).collect::<Result<Vec<_>, _>>()?;
        let is_full = held.len() >= request.most;
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
        Ok(if is_full { page.and_more() } else { page })
    }
}
