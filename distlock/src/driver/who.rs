//! The record of this process for operators.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use once_cell::sync::OnceCell;

use super::Core;
use crate::backend::HoldNote;
use crate::lease_cell::LeaseCell;
use crate::protocol::{Account, Met, Pattern, StoreError, Token, WaitRecord, Who, op, with_waits};
use distlock_store::clock;
use distlock_store::kit::sync::Locked;

/// The key and the token of a lease.
pub(super) type Lease = (Arc<str>, Token);
type PublishedTexts = HashMap<Lease, PublishedText>;

/// The text that a holder publishes.
#[derive(Debug, Default)]
struct PublishedText {
    value: Option<Arc<str>>,
    /// The requests that wait inside its section.
    waits: Vec<WaitRecord>,
}

/// The identity of this process, and its counters since the start of the manager.
#[derive(Debug, Default)]
pub(super) struct Myself {
    who: OnceCell<Who>,
    busy: AtomicU64,
    lost: AtomicU64,
    published: Locked<PublishedTexts>,
}

/// A published value. After this is dropped, renewals no longer write it.
#[derive(Debug)]
pub(crate) struct Published {
    core: Arc<Core>,
    lease: Lease,
}

impl Drop for Published {
    fn drop(&mut self) {
        // In a fork, the mutex may be locked by a thread that does not exist here.
        if !self.core.is_forked() {
            self.core.myself.change(&self.lease, |published| published.value = None);
        }
    }
}

impl Myself {
    fn change(&self, lease: &Lease, change: impl FnOnce(&mut PublishedText)) {
        let mut published = self.published.lock();
        let text = published.entry(lease.clone()).or_default();
        change(text);
        if text.value.is_none() && text.waits.is_empty() {
            published.remove(lease);
        }
    }

    /// Counts a request that has ended as busy.
    pub(super) fn count_busy(&self) {
        self.busy.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a lost hold.
    pub(super) fn count_lost(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }
}

impl Core {
    /// The record of this process.
    pub(crate) fn who(&self) -> Who {
        let who = self.myself.who.get_or_init(Who::this_process).clone();
        let met = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Who { met: Some(Met { busy: met(&self.myself.busy), lost: met(&self.myself.lost) }), ..who }
    }

    /// The holds and waits of this client for one key.
    pub(crate) fn account(&self, key: &Arc<str>) -> Option<Account> {
        let now = clock::now();
        self.engine.look(key, |machine| machine.account(now, key))
    }

    /// The record of a lease that is being renewed, for operators.
    pub(super) fn hold_note(&self, key: &Arc<str>, renew: &op::Renew) -> Option<HoldNote> {
        self.note(key, renew.token, renew.ttl)
    }

    fn note(&self, key: &Arc<str>, token: Token, ttl: Duration) -> Option<HoldNote> {
        let hold = self.account(key)?.holds.into_iter().find(|hold| hold.token == token)?;
        let published = self.myself.published.lock();
        let text = published.get(&(key.clone(), token));
        let text = text.and_then(|text| with_waits(text.value.as_deref(), token, &text.waits));
        Some(HoldNote { key: key.clone(), hold, ttl, value: text.map(Arc::from) })
    }

    /// Publishes a text next to a lock that this process holds, until the result is dropped. Returns `Ok` even if the
    /// lock was lost meanwhile.
    pub(crate) async fn publish(
        self: &Arc<Self>,
        cell: &LeaseCell,
        ttl: Duration,
        value: &Arc<str>,
    ) -> Result<Published, StoreError> {
        let lease = (cell.key.clone(), cell.token);
        self.myself.change(&lease, |published| published.value = Some(value.clone()));
        let published = Published { core: self.clone(), lease };
        if let Some(note) = self.note(&cell.key, cell.token, ttl) {
            self.backend.publish(note).await?;
        }
        Ok(published)
    }

    /// Records that this request waits inside the sections that hold these leases.
    pub(super) fn note_wait(&self, wait: &WaitRecord, leases: &BTreeSet<Lease>) {
        for lease in leases {
            self.myself.change(lease, |published| {
                published.waits.retain(|other| other.number != wait.number);
                published.waits.push(wait.clone());
            });
        }
    }

    /// The sections that hold these leases are no longer around this request.
    pub(super) fn forget_wait(&self, number: u64, leases: &BTreeSet<Lease>) {
        for lease in leases {
            self.myself.change(lease, |published| published.waits.retain(|wait| wait.number != number));
        }
    }

    /// The requests that now wait inside the section that holds this lease.
    pub(super) fn own_waits(&self, lease: &Lease) -> Vec<WaitRecord> {
        let noted =
            self.myself.published.lock().get(lease).map(|text| text.waits.clone()).unwrap_or_default();
        let beat = clock::now().0;
        let waiting = noted.into_iter().filter(|wait| self.nested_waits.is_waiting(wait.number));
        waiting.map(|wait| WaitRecord { beat, ..wait }).collect()
    }

    /// Publishes the requests that wait inside the section that holds this lease, or removes their record. `Some`: the
    /// error.
    pub(super) async fn publish_waits_of(&self, lease: &Lease) -> Option<StoreError> {
        let (key, token) = lease;
        let hold = self.account(key).and_then(|own| own.holds.into_iter().find(|hold| hold.token == *token));
        self.myself.change(lease, |published| {
            // A lost lease has no section.
            published.waits.retain(|wait| hold.is_some() && self.nested_waits.is_waiting(wait.number));
        });
        // The record lives as long as the lease. A renewal prolongs both.
        let note = hold.and_then(|hold| self.note(key, *token, hold.left));
        match note {
            Some(note) if note.value.is_some() => self.backend.publish(note).await.err(),
            note => {
                // It may have been written again after the release.
                let note = note.unwrap_or_else(|| HoldNote::that_ends(key, *token));
                self.backend.unpublish(note).await.err()
            }
        }
    }

    /// The first `most` keys after `after` that this client holds or waits for, in order.
    pub(crate) fn keys_behind(&self, after: Option<&str>, pattern: &Pattern, most: usize) -> Vec<Arc<str>> {
        self.engine.keys_behind(after, pattern, most)
    }
}
