//! One listing of all locks, and the state that is kept between two listings.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock::{LockClient, LockError, LockManager};

use super::view::{Loss, Row, Silent};
use crate::known::{Known, KnownHolder, Name};
use crate::rates::{Meter, Rates};
use crate::words::shown;

/// The limit for one look. Locks that were not listed by then are missing.
const LONGEST_LOOK: Duration = Duration::from_secs(15);
/// A loss is reported within this time: a client writes its number of lost holds every five seconds.
const SAID_WITHIN: Duration = Duration::from_secs(10);
/// At most this many locks are known by key. Further locks are only counted.
const MOST_KNOWN: usize = 10_000;
/// At most this many losses are remembered.
const MOST_LOSSES: usize = 50;
/// If the rest of a lease was at most this when its end was noticed, it was not renewed, because renewals come long
/// before.
const NOT_RENEWED: Duration = Duration::from_millis(300);

/// The data that is kept from one look to the next.
#[derive(Debug, Default)]
pub(super) struct History {
    known: Known,
    /// Holders that are no longer listed. Their clients may still report whether they have lost their locks.
    gone: VecDeque<Gone>,
    /// The latest loss comes first.
    pub(super) losses: VecDeque<Loss>,
    pub(super) lost: u64,
    /// The number of lost holds that each client has reported.
    lost_by: BTreeMap<String, u64>,
    meter: Meter,
}

/// A holder that is no longer listed.
#[derive(Debug)]
struct Gone {
    key: String,
    seen: KnownHolder,
    at: Instant,
    /// The rest of its lease at that time.
    left: Duration,
}

/// The result of one look.
#[derive(Debug)]
pub(super) struct ListedLocks {
    pub(super) at: Instant,
    /// In the order of their importance, because not all rows may be shown.
    pub(super) rows: Vec<Row>,
    /// The number of locks that are not among the rows.
    pub(super) unknown: u64,
    pub(super) held: u64,
    pub(super) awaited: u64,
    pub(super) waiting: u64,
    pub(super) oldest: Option<Duration>,
    /// The number of holders whose processes send no heartbeat.
    pub(super) silent: usize,
    /// The servers that could not be read.
    unread: Vec<String>,
    /// Whether the look was complete.
    is_whole: bool,
    pub(super) rates: Option<Rates>,
    holders: BTreeMap<Name, KnownHolder>,
    /// The number of holds that each client has lost since the last look and for which no holder was found.
    lost_by: BTreeMap<String, u64>,
}

impl History {
    /// No page was open for a while.
    pub(super) fn forget_holders(&mut self) {
        self.known.forget();
        self.gone.clear();
        self.meter = Meter::default();
    }

    /// Lists all locks. `taken` returns whether the page has released this lock of this owner by force. After an error,
    /// nothing is forgotten.
    pub(super) async fn look(
        &mut self,
        manager: &LockManager,
        pattern: &str,
        taken: impl Fn(&str, &str) -> bool,
    ) -> Result<ListedLocks, LockError> {
        let mut found = ListedLocks::new();
        let clients = found.list(manager, pattern).await?;
        found.rates = self.meter.look(Instant::now(), &clients);
        self.count_losses(&mut found, &clients);
        let listed = std::mem::take(&mut found.holders);
        let now = Instant::now();
        for ((key, _), seen) in self.known.update(listed, found.is_whole && found.unread.is_empty()) {
            let left = seen.left();
            self.gone.push_front(Gone { key, seen, at: now, left });
        }
        self.gone.truncate(MOST_KNOWN);
        for gone in std::mem::take(&mut self.gone) {
            match gone.why(&mut found, &taken) {
                Some(why) => self.lost(gone, why),
                None if gone.at.elapsed() < SAID_WITHIN => self.gone.push_back(gone),
                // As far as the listings show, the lock was released.
                None => {}
            }
        }
        self.lost += found.lost_by.values().sum::<u64>();
        found.rows.sort_by(|one, other| one.rank().cmp(&other.rank()));
        Ok(found)
    }

    /// Evaluates the counters of the clients.
    fn count_losses(&mut self, found: &mut ListedLocks, clients: &[LockClient]) {
        let tell = |client: &LockClient| Some((client.id.clone(), client.lost?));
        let lost_by: BTreeMap<String, u64> = clients.iter().filter_map(tell).collect();
        for (client, lost) in &lost_by {
            let more = lost.saturating_sub(*self.lost_by.get(client).unwrap_or(lost));
            found.lost_by.insert(client.clone(), more);
        }
        self.lost_by = lost_by;
    }

    fn lost(&mut self, Gone { key, seen, .. }: Gone, why: &'static str) {
        let loss = Loss { number: self.lost, key, holder: seen.holder, why, seen: Instant::now() };
        self.lost += 1;
        self.losses.truncate(MOST_LOSSES - 1);
        self.losses.push_front(loss);
    }
}

impl Gone {
    /// The reason why the holder has lost the lock, as far as it is known by now. `None`: it has released the lock.
    fn why(&self, found: &mut ListedLocks, taken: impl Fn(&str, &str) -> bool) -> Option<&'static str> {
        let client = self.seen.holder.client.as_ref().map(|client| client.id.as_str()).unwrap_or_default();
        if taken(&self.key, &self.seen.holder.token) {
            return Some("released by this page");
        }
        if let Some(lost) = found.lost_by.get_mut(client).filter(|lost| **lost > 0) {
            *lost -= 1;
            return Some("its holder says that it was lost");
        }
        (self.left <= NOT_RENEWED).then_some("its lease expired without a renewal")
    }
}

impl ListedLocks {
    pub(super) fn new() -> Self {
        ListedLocks {
            at: Instant::now(),
            rows: Vec::new(),
            unknown: 0,
            held: 0,
            awaited: 0,
            waiting: 0,
            oldest: None,
            silent: 0,
            unread: Vec::new(),
            is_whole: true,
            rates: None,
            holders: BTreeMap::new(),
            lost_by: BTreeMap::new(),
        }
    }

    /// Reads all locks. Returns the connected clients.
    async fn list(&mut self, manager: &LockManager, pattern: &str) -> Result<Vec<LockClient>, LockError> {
        let mut locks = manager.list(pattern);
        let until = tokio::time::Instant::now() + LONGEST_LOOK;
        loop {
            let Ok(next) = tokio::time::timeout_at(until, locks.next()).await else {
                self.is_whole = false;
                break;
            };
            let Some(entry) = next.transpose()? else { break };
            self.held += u64::from(!entry.holders.is_empty());
            self.awaited += u64::from(!entry.waiting.is_empty());
            self.waiting += entry.waiting.iter().map(|waiter| waiter.requests.unwrap_or(1)).sum::<u64>();
            let row = Row::new(entry);
            self.oldest = self.oldest.max(row.age());
            self.rows.push(row);
            if self.rows.len() >= 2 * MOST_KNOWN {
                self.forget_the_last();
            }
        }
        self.forget_the_last();
        self.at = Instant::now();
        self.unread.extend_from_slice(locks.unread());
        let silent: HashSet<&str> = locks.unanswered().iter().map(String::as_str).collect();
        for row in &mut self.rows {
            for holder in &mut row.holders {
                if holder.one.client.as_ref().is_some_and(|client| silent.contains(&*client.id)) {
                    holder.silent = Silent::Yes;
                    self.silent += 1;
                }
                let name = (row.key.clone(), holder.one.token.clone());
                self.holders.insert(name, KnownHolder::now(holder.one.clone()));
            }
        }
        Ok(locks.clients().to_vec())
    }

    fn forget_the_last(&mut self) {
        if self.rows.len() > MOST_KNOWN {
            self.rows.select_nth_unstable_by(MOST_KNOWN, |one, other| one.rank().cmp(&other.rank()));
            self.unknown += u64::try_from(self.rows.len() - MOST_KNOWN).unwrap_or_default();
            self.rows.truncate(MOST_KNOWN);
        }
    }
}

impl ListedLocks {
    /// Whether no lock is missing.
    pub(super) fn is_complete(&self) -> bool {
        self.unknown == 0 && self.is_whole && self.unread.is_empty()
    }

    /// The notes for a viewer of the rows.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.silent > 0 {
            let one = ("lock is held by a process that gives", "Its lease expires");
            let (what, leases) =
                of_number(self.silent, one, ("locks are held by processes that give", "Their leases expire"));
            notes.push(format!("{} {what} no sign of life (red). {leases}.", self.silent));
        }
        if !self.is_whole {
            notes.push(format!("The list was not complete within {} s.", LONGEST_LOOK.as_secs()));
        }
        match &self.unread[..] {
            [] => {}
            [one] => notes.push(format!("{} cannot be read, so its locks are missing here.", shown(one))),
            [one, more @ ..] => notes.push(format!(
                "{} and {} more servers cannot be read, so its locks are missing here.",
                shown(one),
                more.len()
            )),
        }
        if self.unknown > 0 {
            notes.push(format!(
                "There are {} more locks than this page reads: name a pattern when `distlock web` starts.",
                self.unknown
            ));
        }
        notes
    }
}

fn of_number<T>(count: usize, one: T, many: T) -> T {
    if count == 1 { one } else { many }
}

/// The data that all pages share.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    /// The last look that succeeded.
    pub(super) found: Option<Arc<ListedLocks>>,
    pub(super) trouble: Option<ListingError>,
    pub(super) losses: Vec<Loss>,
    pub(super) lost: u64,
}

/// The locks cannot be listed.
#[derive(Clone, Debug)]
pub(super) struct ListingError {
    pub(super) since: Instant,
    pub(super) error: LockError,
}
