//! Looks at the locks again and again, while somebody looks at the page, and notices losses.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use distlock::{LockClient, LockEntry, LockError, LockHolder, LockManager};
use serde_json::{Value, json};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use super::guard::Access;
use super::view::{self, Loss, MOST_HOLDERS, Silent};
use crate::rates::{Meter, Rates};

/// The pause between two looks: what happens is seen within a second.
const PAUSE: Duration = Duration::from_millis(500);
/// Busy and lost in a second are those of so much time.
const RATES_OVER: Duration = Duration::from_secs(5);
/// So many pages may be open.
const MOST_VIEWERS: usize = 32;
/// So many locks are shown.
const MOST_LOCKS: usize = 500;
/// So many losses are remembered.
const MOST_LOSSES: usize = 50;
/// Of so many holders that have gone, each time, the store is asked what became of them.
const MOST_GONE: usize = 32;
/// If a holder does not answer, and its lease had no more left than this when its end was noticed, nobody renewed it.
const NOT_RENEWED: Duration = Duration::from_millis(300);

pub(super) struct Feed {
    manager: LockManager,
    pattern: String,
    access: Access,
    store: String,
    /// What the page is told; empty before the first look.
    latest: watch::Sender<Arc<str>>,
    viewers: Arc<Semaphore>,
    wanted: Notify,
    /// Keys that were released by the page, until that was noticed.
    released: Mutex<Vec<String>>,
}

/// A page that is open.
pub(super) struct Viewer {
    latest: watch::Receiver<Arc<str>>,
    _place: OwnedSemaphorePermit,
}

/// A holder as it was last seen.
#[derive(Clone, Debug)]
struct Seen {
    holder: LockHolder,
    kind: String,
    at: Instant,
    silent: Silent,
}

/// By key and token, in the order of the keys.
type Holders = BTreeMap<(String, String), Seen>;

/// What is remembered from one look to the next.
#[derive(Debug)]
struct Memory {
    holders: Holders,
    losses: VecDeque<Loss>,
    lost: u64,
    /// How many holds each client says that it has lost.
    lost_by: BTreeMap<String, u64>,
    meter: Meter,
}

/// What one look has found.
#[derive(Debug, Default)]
struct Found {
    rows: Vec<Value>,
    holders: Holders,
    held: u64,
    awaited: u64,
    waiting: u64,
    hidden: u64,
    notes: Vec<String>,
    rates: Option<Rates>,
    /// How many holds each client has lost since the last look, as far as no holder was found for them.
    lost_by: BTreeMap<String, u64>,
}

impl Feed {
    pub(super) fn new(manager: LockManager, store: String, pattern: String, access: Access) -> Arc<Self> {
        Arc::new(Feed {
            manager,
            pattern,
            access,
            store,
            latest: watch::Sender::new("".into()),
            viewers: Arc::new(Semaphore::new(MOST_VIEWERS)),
            wanted: Notify::new(),
            released: Mutex::default(),
        })
    }

    /// `None`: there are too many.
    pub(super) fn viewer(&self) -> Option<Viewer> {
        let place = self.viewers.clone().try_acquire_owned().ok()?;
        let latest = self.latest.subscribe();
        self.wanted.notify_one();
        Some(Viewer { latest, _place: place })
    }

    /// Works while somebody looks, without end.
    pub(super) async fn run(&self) {
        let mut memory = Memory::new();
        loop {
            if self.latest.receiver_count() == 0 {
                // Nobody has seen what happens until the next one comes.
                memory.holders.clear();
                memory.meter = Meter::new(RATES_OVER);
                self.wanted.notified().await;
            }
            let text = self.look(&mut memory).await;
            self.latest.send_replace(text.into());
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Takes a lock away from its holder. Returns whether there was one.
    pub(super) async fn release(&self, key: &str) -> Result<bool, LockError> {
        // Before: a look that is under way may see it at once.
        self.released().push(key.to_owned());
        let was_held = self.manager.force_release(key).await;
        if !matches!(was_held, Ok(true)) {
            self.take_released(key);
        }
        was_held
    }

    fn released(&self) -> MutexGuard<'_, Vec<String>> {
        self.released.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the page has released it. Of effect once.
    fn take_released(&self, key: &str) -> bool {
        let mut released = self.released();
        let found = released.iter().position(|one| one == key);
        found.map(|place| released.swap_remove(place)).is_some()
    }

    async fn look(&self, memory: &mut Memory) -> String {
        let mut found = Found::default();
        let complete = self.list(&mut found, memory).await;
        let before = std::mem::take(&mut memory.holders);
        let mut gone: Vec<_> =
            before.into_iter().filter(|(name, _)| !found.holders.contains_key(name)).collect();
        if complete {
            for ((key, token), seen) in gone.drain(..).take(MOST_GONE) {
                self.look_after(key, token, seen, &mut found, memory).await;
            }
        }
        memory.lost += found.lost_by.values().sum::<u64>();
        memory.holders = std::mem::take(&mut found.holders);
        // The store could not be asked: nothing is known of them.
        memory.holders.extend(gone);
        self.text(found, memory)
    }

    /// Whether all locks were listed.
    async fn list(&self, found: &mut Found, memory: &mut Memory) -> bool {
        let mut locks = self.manager.list(&self.pattern);
        while let Some(lock) = locks.next().await {
            match lock {
                Ok(entry) => found.add(&entry),
                Err(error) => {
                    found.notes.push(format!("{error}."));
                    return false;
                }
            }
        }
        found.rates = memory.meter.look(Instant::now(), locks.clients());
        let tell = |client: &LockClient| Some((client.id.clone(), client.lost?));
        let lost_by: BTreeMap<String, u64> = locks.clients().iter().filter_map(tell).collect();
        for (client, lost) in &lost_by {
            let more = lost.saturating_sub(*memory.lost_by.get(client).unwrap_or(lost));
            found.lost_by.insert(client.clone(), more);
        }
        memory.lost_by = lost_by;
        match locks.unanswered() {
            [] => {}
            [one] => found.notes.push(format!("The client {one} does not answer: its locks are missing.")),
            [one, more @ ..] => found.notes.push(format!(
                "The client {one} and {} others do not answer: their locks are missing.",
                more.len()
            )),
        }
        if found.hidden > 0 {
            found.notes.push(format!("{} more locks are not shown: name a pattern.", found.hidden));
        }
        true
    }

    /// A holder is not listed any more: it has released the lock, lost it, or does not answer.
    async fn look_after(
        &self,
        key: String,
        token: String,
        seen: Seen,
        found: &mut Found,
        memory: &mut Memory,
    ) {
        let Ok(now) = self.manager.inspect(&*key).await else { return };
        let still = now.iter().flat_map(|info| &info.holders).find(|holder| holder.token == token);
        if let Some(holder) = still {
            // What it has told before is true still.
            let told = &seen.holder;
            let since = told.since.map(|since| since + seen.at.elapsed());
            let (client, label) = (told.client.clone(), told.label.clone());
            let mut holder = holder.clone();
            (holder.client, holder.label, holder.since) = (client, label, since);
            found.add_silent(&key, &seen.kind, &holder);
            let seen = Seen { holder, kind: seen.kind, at: Instant::now(), silent: Silent::Yes };
            found.holders.insert((key, token), seen);
            return;
        }
        let left = seen.holder.remaining.map(|left| left.saturating_sub(seen.at.elapsed()));
        let client = seen.holder.client.as_ref().map(|client| client.id.as_str()).unwrap_or_default();
        let says = found.lost_by.get_mut(client).filter(|lost| **lost > 0).map(|lost| *lost -= 1).is_some();
        let why = if self.take_released(&key) {
            "taken away by this page"
        } else if says {
            "its holder says that it was lost"
        } else if seen.silent == Silent::Yes && left.is_some_and(|left| left <= NOT_RENEWED) {
            "its lease ended: nobody renewed it"
        } else {
            // Released, as far as can be seen from here.
            return;
        };
        memory.lost += 1;
        memory.losses.truncate(MOST_LOSSES - 1);
        let holder = view::holder(&seen.holder, Silent::No);
        memory.losses.push_front(Loss { key, holder, why, seen: Instant::now() });
    }

    fn text(&self, found: Found, memory: &Memory) -> String {
        let losses: Vec<Value> = memory.losses.iter().map(view::loss).collect();
        json!({
            "store": self.store,
            "writable": self.access == Access::Release,
            "locks": found.rows,
            "held": found.held,
            "awaited": found.awaited,
            "waiting": found.waiting,
            "lost": memory.lost,
            "busy_per_second": found.rates.map(|rates| rates.busy),
            "lost_per_second": found.rates.map(|rates| rates.lost),
            "losses": losses,
            "notes": found.notes,
        })
        .to_string()
    }
}

impl Memory {
    fn new() -> Self {
        Memory {
            holders: Holders::new(),
            losses: VecDeque::new(),
            lost: 0,
            lost_by: BTreeMap::new(),
            meter: Meter::new(RATES_OVER),
        }
    }
}

impl Found {
    fn add(&mut self, entry: &LockEntry) {
        self.held += u64::from(!entry.holders.is_empty());
        self.awaited += u64::from(!entry.waiting.is_empty());
        self.waiting += entry.waiting.iter().map(|waiter| waiter.requests.unwrap_or(1)).sum::<u64>();
        if self.rows.len() >= MOST_LOCKS {
            self.hidden += 1;
            return;
        }
        self.rows.push(view::lock(entry));
        let (at, kind) = (Instant::now(), view::kind(entry.kind));
        // One that does not answer, and is known from those who wait for it, is looked after.
        let told = entry.holders.iter().filter(|holder| holder.remaining.is_some());
        for holder in told.take(MOST_HOLDERS) {
            let name = (entry.key.clone(), holder.token.clone());
            self.holders
                .insert(name, Seen { holder: holder.clone(), kind: kind.clone(), at, silent: Silent::No });
        }
    }

    /// A holder that does not answer: with the others of its key, if the key is listed because of them.
    fn add_silent(&mut self, key: &str, kind: &str, holder: &LockHolder) {
        let shown = view::holder(holder, Silent::Yes);
        let row = self.rows.iter_mut().find(|row| row["key"] == *key);
        if let Some(holders) = row.and_then(|row| row["holders"].as_array_mut()) {
            match holders.iter_mut().find(|one| one["token"] == holder.token) {
                Some(known) => *known = shown,
                None => holders.push(shown),
            }
        } else if self.rows.len() < MOST_LOCKS {
            self.held += 1;
            self.rows.push(json!({
                "key": key, "kind": kind, "holders": [shown], "waiting": [], "more_waiting": 0
            }));
        }
    }
}

impl Viewer {
    /// What is new; `None`: it is over.
    pub(super) async fn next(&mut self) -> Option<Arc<str>> {
        loop {
            self.latest.changed().await.ok()?;
            let text = self.latest.borrow_and_update().clone();
            if !text.is_empty() {
                return Some(text);
            }
        }
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").field("manager", &self.manager).finish_non_exhaustive()
    }
}
