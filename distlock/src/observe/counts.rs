//! Counts sections, for tests: how many have begun, and how many were inside at once.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};

use once_cell::sync::OnceCell;

use super::{Event, Lock, Observer};
use crate::lease_cell::How;
use distlock_store::kit::sync::Locked;

/// The counts of a key.
///
/// ```
/// use distlock::testing::Sections;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// let manager = distlock::LockManager::in_memory();
/// let sections = Sections::of([&manager]);
/// for _ in 0..3 {
///     manager.lock("order:42").run(async |_held| {}).await?;
/// }
/// let orders = sections.count("order:42");
/// assert_eq!((orders.begun, orders.running, orders.most_at_once, orders.lost), (3, 0, 1, 0));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SectionCount {
    /// The number of acquired locks. A lock that the same task enters again counts once.
    pub begun: usize,
    /// The number of these locks that are held now.
    pub running: usize,
    /// The largest number of locks held at the same time.
    pub most_at_once: usize,
    /// The number of lost locks.
    pub lost: usize,
}

/// The counts of several managers.
#[derive(Debug, Default)]
pub(crate) struct Counts(Locked<CountTable>);

#[derive(Debug, Default)]
struct CountTable {
    keys: HashMap<String, SectionCount>,
    leases: HashMap<LeaseName, LeaseCount>,
}

/// The manager, the key and the token: no two leases share them.
type LeaseName = (u64, String, u64);

/// A lease in use. Readers of one process may share it.
#[derive(Clone, Copy, Debug, Default)]
struct LeaseCount {
    begun: usize,
    ended: usize,
    lost: usize,
}

impl LeaseCount {
    /// A hold that is lost ends later; which of the two is reported first is not certain.
    fn running(self) -> usize {
        self.begun.saturating_sub(self.ended.max(self.lost))
    }
}

impl Counts {
    fn table(&self) -> MutexGuard<'_, CountTable> {
        self.0.lock()
    }

    pub(crate) fn of(&self, key: &str) -> SectionCount {
        self.table().keys.get(key).copied().unwrap_or_default()
    }
}

/// The counter of one manager. Counts its sections if a test has asked for it.
#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<OnceCell<CountsOf>>);

impl Counter {
    pub(crate) fn is_on(&self) -> bool {
        self.0.get().is_some()
    }

    /// Counts sections from now on, together with those of other managers. `false`: they are already counted.
    pub(crate) fn begin(&self, counts: CountsOf) -> bool {
        self.0.set(counts).is_ok()
    }

    /// A hold ends now: its release is about to be sent.
    pub(crate) fn hold_ends(&self, lock: &Lock<'_>) {
        if let Some(counts) = self.0.get() {
            counts.hold_ends(lock);
        }
    }

    pub(super) fn event(&self, event: &Event<'_>) {
        if let Some(counts) = self.0.get() {
            counts.event(event);
        }
    }
}

thread_local! {
    /// Managers that are made on this thread now have no observers.
    static UNOBSERVED: Cell<bool> = const { Cell::new(false) };
}

pub(super) fn is_unobserved() -> bool {
    UNOBSERVED.get()
}

/// Managers that `make` makes have no observers.
pub(crate) fn unobserved<T>(make: impl FnOnce() -> T) -> T {
    let before = UNOBSERVED.replace(true);
    let made = make();
    UNOBSERVED.set(before);
    made
}

/// Counts for one of the managers.
#[derive(Debug)]
pub(crate) struct CountsOf {
    pub(crate) manager: u64,
    pub(crate) counts: Arc<Counts>,
}

impl CountsOf {
    pub(super) fn hold_ends(&self, lock: &Lock<'_>) {
        self.change(lock, |lease, _| lease.ended += 1);
    }

    fn change(&self, lock: &Lock<'_>, change: impl FnOnce(&mut LeaseCount, &mut SectionCount)) {
        self.counts.table().change((self.manager, lock.key.to_string(), lock.token), change);
    }
}

impl CountTable {
    fn change(&mut self, name: LeaseName, change: impl FnOnce(&mut LeaseCount, &mut SectionCount)) {
        let count = self.keys.entry(name.1.clone()).or_default();
        let lease = self.leases.entry(name.clone()).or_default();
        let before = lease.running();
        change(lease, count);
        count.running = count.running + lease.running() - before;
        count.most_at_once = count.most_at_once.max(count.running);
        if lease.ended >= lease.begun {
            self.leases.remove(&name);
        }
    }
}

impl Observer for CountsOf {
    fn event(&self, event: &Event<'_>) {
        match *event {
            Event::Acquired { how: How::Nested, .. } => {}
            Event::Acquired { lock, .. } => self.change(&lock, |lease, count| {
                lease.begun += 1;
                count.begun += 1;
            }),
            Event::Lost { lock, .. } => self.change(&lock, |lease, count| {
                lease.lost += 1;
                count.lost += 1;
            }),
            Event::Requested { .. }
            | Event::Queued { .. }
            | Event::NotAcquired { .. }
            | Event::Abandoned { .. }
            | Event::LongWait { .. }
            | Event::LongHold { .. }
            | Event::NotTaken { .. }
            | Event::Renewed { .. }
            | Event::Released { .. }
            | Event::Leader { .. }
            | Event::Deadlock { .. }
            | Event::Link { .. }
            | Event::LiteralPlaceholder { .. }
            | Event::Failed { .. } => {}
            Event::Notice { .. } => {}
        }
    }
}
