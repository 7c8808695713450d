//! Take-over: a lock passes from one owner to another, together with its number in the queue.
//!
//! A place cannot leave the session that has created it. So a place that is handed over stays in the session of its
//! process, and a task deletes it when its ttl is over. While such places exist, the end of the manager does not end
//! that session. Without heartbeats, the ensemble ends it after its time-out. The owner that takes the lock over
//! deletes the place and creates its own place with the same number, in one command.

use zookeeper_client::{CreateMode, Error, MultiWriteResult};

use super::entering::{Confirmed, fence};
use super::names::PlaceName;
use super::places::{Came, Known};
use super::tickets::end_of_ticket;
use super::{Link, MOST_ATTEMPTS, ZooKeeperStore, is_ours};
use distlock_store::engine::Failure;
use distlock_store::{LockKind, Renew, RenewReply, Replace, ReplaceReply, StoreError};

impl ZooKeeperStore {
    pub(super) async fn detach(&self, request: &Renew) -> Result<RenewReply, StoreError> {
        let Renew { key, owner, ttl, .. } = request;
        let (link, lock) = (self.linked()?, self.config.names.lock(key));
        let Known::Stands(name) = self.places.lock().known(key, owner, link.session) else {
            return Ok(RenewReply::NotHeld);
        };
        let path = name.path(&lock);
        let watcher = match link.client.get_and_watch_data(&path).await {
            Ok((_, stat, watcher)) if is_ours(&stat, link.session) => watcher,
            Ok(_) | Err(Error::NoNode) => return Ok(RenewReply::NotHeld),
            Err(error) => return Err(self.error(&path, &error)),
        };
        // If it must be released nevertheless, it is found by its name.
        self.places.lock().goes(key, owner, link.session);
        self.tickets.lock().add(end_of_ticket(link.client, path, watcher, *ttl));
        Ok(RenewReply::Renewed)
    }

    pub(super) async fn take_over(&self, request: &Replace) -> Result<ReplaceReply, StoreError> {
        let Replace { key, holder, owner, fences, .. } = request;
        let (link, lock) = (self.linked()?, self.config.names.lock(key));
        for _ in 0..MOST_ATTEMPTS {
            // The first place stays first until it is deleted.
            let first = self.list_now(&link, &lock).await?.places.into_iter().next();
            let is_ours = |first: &PlaceName| first.is_of(owner.as_str(), link.session);
            let is_meant =
                |first: &PlaceName| first.owner() == holder.as_str() && first.kind == LockKind::Exclusive;
            let Some(first) = first.filter(|first| is_ours(first) || is_meant(first)) else {
                // An earlier attempt, whose reply was lost, has done nothing.
                self.places.lock().goes(key, owner, link.session);
                return Ok(ReplaceReply::NotHeld);
            };
            if is_ours(&first) {
                self.places.lock().stands(key, owner, link.session, &first);
                let confirmed = self.confirm(&link, &first.path(&lock), Confirmed::of(*fences)).await?;
                if let Some(number) = confirmed {
                    self.places.lock().comes(key, owner, Came::InTurn);
                    return Ok(ReplaceReply::AlreadyHeld { fence: fence(*fences, number) });
                }
                self.places.lock().goes(key, owner, link.session);
                continue;
            }
            let name = first.taken_over(owner.as_str(), link.session);
            // Before the request is sent, so that a release looks for the place if the reply is lost.
            self.places.lock().asks(key, owner, link.session);
            match self.write_over(&link, (&first, &name), &lock).await {
                Ok(number) => {
                    self.places.lock().stands(key, owner, link.session, &name);
                    // Others may wait after it.
                    self.places.lock().comes(key, owner, Came::InTurn);
                    return Ok(ReplaceReply::Replaced { fence: fence(*fences, number) });
                }
                Err(error) => {
                    let meaning = self.error(&lock, &error);
                    if meaning.kind != Failure::Unknown {
                        self.places.lock().goes(key, owner, link.session);
                    }
                    if error != Error::NoNode {
                        return Err(meaning);
                    }
                }
            }
        }
        let describe = self.config.describe();
        Err(StoreError::later(format!("{describe}: the holder of `{key}` changes too fast")))
    }

    /// Replaces one place by another one. Returns the number of the change, which is higher than all fencing tokens so
    /// far.
    async fn write_over(
        &self,
        link: &Link,
        (first, name): (&PlaceName, &PlaceName),
        lock: &str,
    ) -> Result<i64, Error> {
        let options = CreateMode::Ephemeral.with_acls(self.config.acls());
        let mut writer = link.client.new_multi_writer();
        writer.add_delete(&first.path(lock), None)?;
        writer.add_create(&name.path(lock), b"", &options)?;
        // This write gives the number: for a creation in such a command, the server's reply does not contain it.
        writer.add_set_data(&link.node, b"", None)?;
        match writer.commit().await?.as_slice() {
            [.., MultiWriteResult::SetData { stat }] => Ok(stat.mzxid),
            _ => Err(Error::UnexpectedErrorCode(0)),
        }
    }
}
