//! Lists the locks and their waiters.
//!
//! ZooKeeper returns the names of all nodes below a node at once, and cannot return a part. The node of an unused lock
//! stays for a minute or two, so there may be many more nodes than held locks.

use tokio::time::{Duration, Instant};
use zookeeper_client::Error;

use super::names::Names;
use super::queue::QueueState;
use super::{Link, MOST_TOGETHER, ZooKeeperStore};
use distlock_store::{LATE_COMMANDS, List, StoreError, StoredPage};

/// A page ends after this time.
const LONGEST: Duration = Duration::from_secs(4);
const _: () = assert!(LONGEST.as_millis() < LATE_COMMANDS.as_millis());

impl ZooKeeperStore {
    /// Locks in the order of their keys' bytes.
    pub(super) async fn page(&self, link: &Link, request: &List) -> Result<StoredPage, StoreError> {
        let (end, mut page, mut found) = (Instant::now() + LONGEST, StoredPage::new(), 0);
        let keys = self.keys_behind(link, request).await?;
        for some in keys.chunks(MOST_TOGETHER) {
            if Instant::now() >= end && found > 0 {
                return Ok(page.and_more());
            }
            if Instant::now() >= end {
                return Err(StoreError::refused(format!(
                    "{}: {} keys were used within the last minutes, too many to look for those that are held: list \
                     keys with a longer beginning in common",
                    self.config.describe(),
                    keys.len()
                )));
            }
            // All requests are sent before the first reply is awaited.
            let asked: Vec<_> = some
                .iter()
                .map(|key| {
                    let lock = self.config.names.lock(key);
                    (key, link.client.get_children(&lock), lock)
                })
                .collect();
            for (key, listed, lock) in asked {
                if found >= request.most {
                    return Ok(page.and_more());
                }
                let names = match listed.await {
                    Ok((names, _)) => names,
                    Err(Error::NoNode) => continue,
                    Err(error) => return Err(self.error(&lock, &error)),
                };
                if let Some(stored) = QueueState::read(names).stored() {
                    page = page.lock(key, stored);
                    found += 1;
                }
            }
        }
        Ok(page)
    }

    /// The keys with the requested beginning, after the last key of the previous page. The leader's present nodes
    /// count.
    async fn keys_behind(&self, link: &Link, request: &List) -> Result<Vec<String>, StoreError> {
        let locks = self.config.names.locks();
        let (synced, listed) = tokio::join!(link.client.sync(&locks), link.client.list_children(&locks));
        let nodes = match synced.and(listed) {
            Ok(nodes) => nodes,
            Err(Error::NoNode) => Vec::new(),
            Err(error) => return Err(self.error(&locks, &error)),
        };
        let is_wanted = |key: &String| {
            key.starts_with(&request.beginning) && request.after.as_ref().is_none_or(|after| key > after)
        };
        let mut keys: Vec<String> =
            nodes.iter().filter_map(|node| Names::key(node)).filter(is_wanted).collect();
        keys.sort_unstable();
        Ok(keys)
    }
}
