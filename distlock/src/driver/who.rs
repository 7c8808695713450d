//! The record of this process for operators.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use once_cell::sync::OnceCell;

use super::Core;
use crate::backend::HoldNote;
use crate::lease_cell::LeaseCell;
use crate::protocol::{Account, Met, Pattern, StoreError, Token, Who, op};
use distlock_store::clock;
use distlock_store::kit::sync::Locked;

type PublishedValues = HashMap<(Arc<str>, Token), Arc<str>>;

/// Who this process is, and what it has met since the manager began.
#[derive(Debug, Default)]
pub(super) struct Myself {
    who: OnceCell<Who>,
    busy: AtomicU64,
    lost: AtomicU64,
    /// What holders of this process publish, by the key and the token of the lease.
    values: Locked<PublishedValues>,
}

/// A value that is published. When it is dropped, renewals write it no more.
#[derive(Debug)]
pub(crate) struct Published {
    core: Arc<Core>,
    lease: (Arc<str>, Token),
}

impl Drop for Published {
    fn drop(&mut self) {
        self.core.myself.values().remove(&self.lease);
    }
}

impl Myself {
    fn values(&self) -> MutexGuard<'_, PublishedValues> {
        self.values.lock()
    }

    /// A request has ended as busy.
    pub(super) fn count_busy(&self) {
        self.busy.fetch_add(1, Ordering::Relaxed);
    }

    /// A hold was lost.
    pub(super) fn count_lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }
}

impl Core {
    /// This process.
    pub(crate) fn who(&self) -> Who {
        let who = self.myself.who.get_or_init(Who::this_process).clone();
        let met = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Who { met: Some(Met { busy: met(&self.myself.busy), lost: met(&self.myself.lost) }), ..who }
    }

    /// What this client holds and waits for under one key.
    pub(crate) fn account(&self, key: &Arc<str>) -> Option<Account> {
        let now = clock::now();
        self.engine.look(key, |machine| machine.account(now, key))
    }

    /// What others may learn of a lease that is being renewed.
    pub(super) fn hold_note(&self, key: &Arc<str>, renew: &op::Renew) -> Option<HoldNote> {
        self.note(key, renew.token, renew.ttl)
    }

    fn note(&self, key: &Arc<str>, token: Token, ttl: Duration) -> Option<HoldNote> {
        let hold = self.account(key)?.holds.into_iter().find(|hold| hold.token == token)?;
        let value = self.myself.values().get(&(key.clone(), token)).cloned();
        Some(HoldNote { key: key.clone(), hold, ttl, value })
    }

    /// Publishes a text beside a lock that this process holds, until the result is dropped. `Ok` also if the lock was
    /// lost meanwhile.
    pub(crate) async fn publish(
        self: &Arc<Self>,
        cell: &LeaseCell,
        ttl: Duration,
        value: &Arc<str>,
    ) -> Result<Published, StoreError> {
        let lease = (cell.key.clone(), cell.token);
        self.myself.values().insert(lease.clone(), value.clone());
        let published = Published { core: self.clone(), lease };
        if let Some(note) = self.note(&cell.key, cell.token, ttl) {
            self.backend.publish(note).await?;
        }
        Ok(published)
    }

    /// The first `most` keys behind `after` that this client holds or waits for, in order.
    pub(crate) fn keys_behind(&self, after: Option<&str>, pattern: &Pattern, most: usize) -> Vec<Arc<str>> {
        self.engine.keys_behind(after, pattern, most)
    }
}
