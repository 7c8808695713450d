//! Which locks are held, in the order of their keys' bytes. Who waits polls, so the table knows nothing of waiters.

use super::MysqlStore;
use super::link::Limit;
use super::statements::{Held, end_of};
use distlock_store::LockKind;
use distlock_store::{List, StoreError, StoredLock, StoredPage};

impl MysqlStore {
    pub(super) async fn page(&self, request: &List) -> Result<StoredPage, StoreError> {
        let beginning = request.beginning.as_bytes();
        let most = u64::try_from(request.most).unwrap_or(u64::MAX);
        // No key lies between one and the same with a zero behind it.
        let first = request.after.as_ref().map(|after| [after.as_bytes(), &[0]].concat());
        let first = first.unwrap_or_else(|| beginning.to_vec());
        let values = |_| vec![first.clone().into(), end_of(beginning).into(), most.into()];
        let pool = self.link.pool()?;
        let answer = self.prepared(&pool, &self.statements.list, &values, Limit::of_a_command()).await?;
        let held = answer.rows.iter().map(Held::of).collect::<Result<Vec<_>, _>>()?;
        let is_full = held.len() >= request.most;
        let page = held.into_iter().fold(StoredPage::new(), |page, Held { key, owner, remaining }| {
            page.lock(key, StoredLock::new(LockKind::Exclusive).holder(owner, Some(remaining)))
        });
        Ok(if is_full { page.and_more() } else { page })
    }
}
