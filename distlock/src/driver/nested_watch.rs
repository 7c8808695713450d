//! Requests that wait inside sections.
//!
//! At first, a wait only costs one entry here. The rest happens at its first look, after a second: it collects the
//! locks that are held around the request, publishes the wait, and checks whether the request waits for itself through
//! other holders. While no request waits inside a section, no task runs.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;

use super::Core;
use super::who::Lease;
use crate::deadlock::{Deadlock, PUBLISHED_AFTER, judge};
use crate::lease_cell::{LeaseCell, Ticket};
use crate::protocol::{Time, WaitRecord};
use distlock_store::clock;
use distlock_store::kit::sync::Locked;

/// The longest time between two looks for one request. The time doubles with each look that finds nothing new.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// The largest number of requests in one look. The next look has the others.
const MOST_LOOKED_AFTER: usize = 64;

/// The sections around a request.
pub(crate) trait Around: fmt::Debug + Send + Sync {
    /// The exclusive locks of this manager that the sections hold now.
    fn holds(&self, manager: u64) -> Vec<Arc<LeaseCell>>;
}

/// A request that waits inside sections.
#[derive(Debug)]
pub(crate) struct NestedWait {
    pub(crate) around: Weak<dyn Around>,
    /// Whether it ends if it is the youngest request of a deadlock.
    pub(crate) breaks: bool,
}

#[derive(Debug)]
struct Entry {
    wait: NestedWait,
    key: Arc<str>,
    ticket: Ticket,
    since: Time,
    next_look: Time,
    pause: Duration,
    /// The begin by the wall clock, in microseconds, set at the first look. Every process must read the same number.
    began: Option<u64>,
    /// The leases that it is published next to.
    published: BTreeSet<Lease>,
    suspected: Option<Deadlock>,
}

/// The nested waits of a manager.
#[derive(Debug, Default)]
pub(super) struct NestedWaits {
    entries: Locked<Entries>,
    /// Notified when the record of an ended request must be removed.
    ended: Notify,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    all: HashMap<u64, Entry>,
    /// The leases whose records contain requests that have ended.
    outdated: BTreeSet<Lease>,
    is_looked_after: bool,
}

/// A request that is due for a look.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) number: u64,
    pub(super) around: Weak<dyn Around>,
    pub(super) record: WaitRecord,
}

impl NestedWaits {
    /// The requests that are due, the longest overdue first, and the leases whose records are outdated.
    pub(super) fn due(&self, now: Time) -> (Vec<Due>, BTreeSet<Lease>) {
        let entries = &mut *self.entries.lock();
        let due = entries.all.iter_mut().filter(|(_, entry)| entry.next_look <= now);
        let mut due: Vec<(&u64, &mut Entry)> = due.collect();
        due.sort_by_key(|(_, entry)| entry.next_look);
        let due = due.into_iter().take(MOST_LOOKED_AFTER).map(|(number, entry)| entry.due(*number, now));
        (due.collect(), std::mem::take(&mut entries.outdated))
    }

    /// From now on, the request is published next to these leases. Returns those that it is no longer published next
    /// to, because the section has ended, or has lost its lock.
    pub(super) fn published(&self, number: u64, leases: BTreeSet<Lease>) -> BTreeSet<Lease> {
        let entries = &mut *self.entries.lock();
        match entries.all.get_mut(&number) {
            Some(entry) => &std::mem::replace(&mut entry.published, leases) - &entry.published,
            // It has ended meanwhile.
            None => leases,
        }
    }

    /// A record could not be written or removed, so the next look retries it.
    pub(super) fn is_outdated(&self, lease: Lease) {
        self.entries.lock().outdated.insert(lease);
    }

    pub(super) fn is_waiting(&self, number: u64) -> bool {
        self.entries.lock().all.contains_key(&number)
    }

    /// Judges the result of a look for a request. Returns a deadlock if it is certain.
    pub(super) fn judge(&self, number: u64, found: Option<Deadlock>) -> Option<Deadlock> {
        let mut entries = self.entries.lock();
        let entry = entries.all.get_mut(&number)?;
        let is_new = match (&entry.suspected, &found) {
            (Some(first), Some(found)) => !found.is_same(first),
            (None, found) => found.is_some(),
            (Some(_), None) => false,
        };
        let certain = judge(&mut entry.suspected, found);
        if is_new {
            // The other members look again soon, too.
            entry.next_look = clock::now().after(PUBLISHED_AFTER);
            entry.pause = PUBLISHED_AFTER;
        }
        certain
    }

    /// The time until the next look. `None`: no request waits and no record is outdated, so the task ends.
    fn pause(&self, now: Time) -> Option<Duration> {
        let entries = &mut *self.entries.lock();
        let next = entries.all.values().map(|entry| entry.next_look.duration_since(now)).min();
        let next = next.or_else(|| (!entries.outdated.is_empty()).then_some(PUBLISHED_AFTER));
        entries.is_looked_after = next.is_some();
        next.map(|next| next.min(PUBLISHED_AFTER))
    }
}

impl Entry {
    fn due(&mut self, number: u64, now: Time) -> Due {
        self.next_look = now.after(self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        let waited = now.duration_since(self.since);
        let began = *self.began.get_or_insert_with(|| {
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(wall.saturating_sub(waited).as_micros()).unwrap_or(u64::MAX)
        });
        let record =
            WaitRecord { number, beat: now.0, began, breaks: self.wait.breaks, key: self.key.clone() };
        Due { number, around: self.wait.around.clone(), record }
    }
}

impl Core {
    /// A request waits inside sections until [`Core::nested_wait_ends`].
    pub(super) fn nested_wait_begins(
        self: &Arc<Self>,
        wait: NestedWait,
        key: Arc<str>,
        ticket: Ticket,
    ) -> u64 {
        let since = clock::now();
        let (next_look, pause) = (since.after(PUBLISHED_AFTER), PUBLISHED_AFTER);
        let (published, began, suspected) = (BTreeSet::new(), None, None);
        let entry = Entry { wait, key, ticket, since, next_look, pause, began, published, suspected };
        let mut entries = self.nested_waits.entries.lock();
        let number = entries.next;
        entries.next += 1;
        entries.all.insert(number, entry);
        let is_looked_after = std::mem::replace(&mut entries.is_looked_after, true);
        drop(entries);
        if !is_looked_after {
            self.look_after_nested_waits();
        }
        number
    }

    pub(super) fn nested_wait_ends(&self, number: u64) {
        let mut entries = self.nested_waits.entries.lock();
        let Some(entry) = entries.all.remove(&number) else { return };
        if entry.published.is_empty() {
            return;
        }
        entries.outdated.extend(entry.published);
        drop(entries);
        self.nested_waits.ended.notify_one();
    }

    fn look_after_nested_waits(self: &Arc<Self>) {
        let core = Arc::downgrade(self);
        self.io.spawn(async move {
            let mut reported = BTreeSet::new();
            loop {
                let Some(core) = core.upgrade() else { return };
                core.look_for_deadlocks(&mut reported).await;
                let Some(pause) = core.nested_waits.pause(clock::now()) else { return };
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = core.nested_waits.ended.notified() => {}
                }
            }
        });
    }

    /// The keys for which requests wait inside sections.
    pub(crate) fn nested_keys(&self) -> BTreeSet<Arc<str>> {
        self.nested_waits.entries.lock().all.values().map(|entry| entry.key.clone()).collect()
    }

    /// The key and the ticket of a request that still waits.
    pub(super) fn nested_request(&self, number: u64) -> Option<(Arc<str>, Ticket)> {
        let entries = self.nested_waits.entries.lock();
        entries.all.get(&number).map(|entry| (entry.key.clone(), entry.ticket))
    }
}
