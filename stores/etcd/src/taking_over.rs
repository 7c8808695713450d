//! Take-over: a lock passes from one owner to another, together with its place.
//!
//! When a lock is handed over, its place gets a separate lease, so it outlives the session of its process. The owner
//! that takes the lock over writes the place, which then lives with the session of that owner. The lease of the ticket
//! then has no key, and expires.

use super::places::Place;
use super::transactions::{self, Left};
use super::{EtcdStore, MOST_ATTEMPTS};
use distlock_store::{LockKind, Renew, RenewReply, Replace, ReplaceReply, StoreError};

impl EtcdStore {
    pub(super) async fn detach(&self, request: &Renew) -> Result<RenewReply, StoreError> {
        let Renew { key, owner, ttl, .. } = request;
        let (link, names, seat) = (self.linked()?, &self.config.names, self.seat(key, owner.as_str()));
        // This lease lasts for that time, because no task renews it.
        let lease = link.grant(transactions::lease_ttl(*ttl)).await.map_err(|error| error.store)?;
        let txn = transactions::hand_over(&link.epoch, &seat, lease);
        let Some(answer) = link.txn_with_lease(txn).await? else {
            let describe = self.config.describe();
            return Err(StoreError::later(format!("{describe}: the ticket had ended before it was written")));
        };
        let left = self.counts(&link, transactions::left(&answer, &link.epoch, names))?;
        // The place no longer belongs to this process. If it must be released nevertheless, it is found by its owner.
        self.seats.lock().forget(key, owner.as_str());
        Ok(match left {
            Left::Done => RenewReply::Renewed,
            Left::Found(_) => RenewReply::NotHeld,
        })
    }

    pub(super) async fn take_over(&self, request: &Replace) -> Result<ReplaceReply, StoreError> {
        let Replace { key, holder, owner, fences, .. } = request;
        let link = self.linked()?;
        for _ in 0..MOST_ATTEMPTS {
            // The first place stays first until it is deleted.
            let first = self.places(&link, key).await?.places.into_iter().next();
            let repeats = |first: &Place| first.owner == owner.as_str() && first.lease == link.epoch.lease;
            let is_meant = |first: &Place| {
                first.owner == holder.as_str() && first.kind == LockKind::Exclusive && !first.kept
            };
            let Some(first) = first.filter(|first| repeats(first) || is_meant(first)) else {
                // An earlier attempt, whose reply was lost, has done nothing.
                self.seats.lock().forget(key, owner.as_str());
                return Ok(ReplaceReply::NotHeld);
            };
            let repeats = repeats(&first);
            if repeats && *fences == 0 {
                return Ok(ReplaceReply::AlreadyHeld { fence: None });
            }
            let Some(revision) = self.write_over(&link, request, &first).await? else { continue };
            let fence = u64::try_from(revision).ok().filter(|_| *fences > 0);
            return Ok(match repeats {
                true => ReplaceReply::AlreadyHeld { fence },
                false => ReplaceReply::Replaced { fence },
            });
        }
        let describe = self.config.describe();
        Err(StoreError::later(format!("{describe}: the holder of `{key}` changes too fast")))
    }

    /// Returns the revision. `None`: the place was changed meanwhile.
    async fn write_over(
        &self,
        link: &super::Link,
        Replace { key, owner, .. }: &Replace,
        seen: &Place,
    ) -> Result<Option<i64>, StoreError> {
        // Before the request is sent, so that a release finds the place if the reply is lost.
        let place = String::from_utf8_lossy(&seen.name).into_owned();
        let seat = self.seats.lock().take_over(key, owner.as_str(), place);
        let answer = self.ask(link, transactions::replace(&link.epoch, seen, &seat)).await?;
        let written = self.counts(link, transactions::replaced(&answer, &link.epoch))?;
        if written.is_none() {
            self.seats.lock().forget(key, owner.as_str());
        }
        Ok(written)
    }
}
