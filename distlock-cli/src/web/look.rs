//! One look at all locks, and what is remembered from one look to the next.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock::{LockClient, LockError, LockManager};

use super::view::{Holder, Loss, Row};
use crate::known::{Known, Missing, Name, Seen, Silent, answering};
use crate::rates::{Meter, Rates};
use crate::words::shown;

/// What clients have not told by then is missing.
const LONGEST_LOOK: Duration = Duration::from_secs(15);
/// Busy and lost in a second are those of so much time.
const RATES_OVER: Duration = Duration::from_secs(5);
/// So many locks are known by key; more are counted only.
const MOST_KNOWN: usize = 10_000;
/// So many losses are remembered.
const MOST_LOSSES: usize = 50;
/// If a holder does not answer, and its lease had no more left than this when its end was noticed, nobody renewed it.
const NOT_RENEWED: Duration = Duration::from_millis(300);

/// What is remembered from one look to the next.
#[derive(Debug)]
pub(super) struct Memory {
    known: Known,
    /// The latest first.
    pub(super) losses: VecDeque<Loss>,
    pub(super) lost: u64,
    /// How many holds each client says that it has lost.
    lost_by: BTreeMap<String, u64>,
    meter: Meter,
}

/// What one look has found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) at: Instant,
    /// In the order in which they are to be shown, if not all can be.
    pub(super) rows: Vec<Row>,
    /// Locks that are not among the rows.
    pub(super) unknown: u64,
    pub(super) held: u64,
    pub(super) awaited: u64,
    pub(super) waiting: u64,
    pub(super) oldest: Option<Duration>,
    /// Holders whose processes do not answer, as far as the store was asked.
    pub(super) silent: usize,
    /// Those of which it was not asked yet.
    pub(super) unasked: usize,
    pub(super) unanswered: Vec<String>,
    pub(super) rates: Option<Rates>,
    holders: BTreeMap<Name, Seen>,
    /// How many holds each client has lost since the last look, as far as no holder was found for them.
    lost_by: BTreeMap<String, u64>,
}

impl Memory {
    pub(super) fn new() -> Self {
        Memory {
            known: Known::default(),
            losses: VecDeque::new(),
            lost: 0,
            lost_by: BTreeMap::new(),
            meter: Meter::new(RATES_OVER),
        }
    }

    /// For a while nobody has looked.
    pub(super) fn forget_holders(&mut self) {
        self.known.forget();
        self.meter = Meter::new(RATES_OVER);
    }

    /// Looks at all locks. `taken`: whether the page has released this key from this owner. After an error nothing is
    /// forgotten.
    pub(super) async fn look(
        &mut self,
        manager: &LockManager,
        pattern: &str,
        taken: impl Fn(&str, &str) -> bool,
    ) -> Result<Found, LockError> {
        let mut found = Found::new();
        let clients = found.list(manager, pattern).await?;
        found.rates = self.meter.look(Instant::now(), &clients);
        self.count_losses(&mut found, &clients);
        let listed = std::mem::take(&mut found.holders);
        let clients = answering(&clients, &found.unanswered);
        let missing = self.known.update(manager, listed, &clients).await;
        for ((key, _), seen) in &missing.ended {
            self.ended(key, seen, &mut found, &taken);
        }
        found.add(missing);
        self.lost += found.lost_by.values().sum::<u64>();
        found.rows.sort_by(|one, other| one.rank().cmp(&other.rank()));
        Ok(found)
    }

    /// What the clients count of themselves.
    fn count_losses(&mut self, found: &mut Found, clients: &[LockClient]) {
        let tell = |client: &LockClient| Some((client.id.clone(), client.lost?));
        let lost_by: BTreeMap<String, u64> = clients.iter().filter_map(tell).collect();
        for (client, lost) in &lost_by {
            let more = lost.saturating_sub(*self.lost_by.get(client).unwrap_or(lost));
            found.lost_by.insert(client.clone(), more);
        }
        self.lost_by = lost_by;
    }

    /// A holder does not hold the lock any more: it has released or lost it.
    fn ended(&mut self, key: &str, seen: &Seen, found: &mut Found, taken: impl Fn(&str, &str) -> bool) {
        let client = seen.holder.client.as_ref().map(|client| client.id.as_str()).unwrap_or_default();
        let says = found.lost_by.get_mut(client).filter(|lost| **lost > 0).map(|lost| *lost -= 1).is_some();
        let why = if taken(key, &seen.holder.token) {
            "taken away by this page"
        } else if says {
            "its holder says that it was lost"
        } else if seen.silent == Silent::Yes && seen.left() <= NOT_RENEWED {
            "its lease ended: nobody renewed it"
        } else {
            // Released, as far as can be seen from here.
            return;
        };
        let loss = Loss {
            number: self.lost,
            key: key.to_owned(),
            holder: seen.holder.clone(),
            why,
            seen: Instant::now(),
        };
        self.lost += 1;
        self.losses.truncate(MOST_LOSSES - 1);
        self.losses.push_front(loss);
    }
}

impl Found {
    pub(super) fn new() -> Self {
        Found {
            at: Instant::now(),
            rows: Vec::new(),
            unknown: 0,
            held: 0,
            awaited: 0,
            waiting: 0,
            oldest: None,
            silent: 0,
            unasked: 0,
            unanswered: Vec::new(),
            rates: None,
            holders: BTreeMap::new(),
            lost_by: BTreeMap::new(),
        }
    }

    /// Reads all locks. Returns the clients that tell of them: none, if some of the locks are missing.
    async fn list(&mut self, manager: &LockManager, pattern: &str) -> Result<Vec<LockClient>, LockError> {
        let mut locks = manager.list(pattern);
        let until = tokio::time::Instant::now() + LONGEST_LOOK;
        let mut clients = None;
        loop {
            let Ok(next) = tokio::time::timeout_at(until, locks.next()).await else {
                self.unanswered.push("those that have more to tell".to_owned());
                clients = Some(Vec::new());
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
        self.unanswered.extend_from_slice(locks.unanswered());
        let silent: HashSet<&str> = self.unanswered.iter().map(String::as_str).collect();
        for row in &mut self.rows {
            for holder in &mut row.holders {
                // One that does not answer, and is known from those who wait for it.
                if holder.one.remaining.is_none()
                    && holder.one.client.as_ref().is_some_and(|client| silent.contains(&*client.id))
                {
                    holder.silent = Silent::Yes;
                    self.silent += 1;
                }
                if holder.one.remaining.is_some() {
                    let name = (row.key.clone(), holder.one.token.clone());
                    self.holders.insert(name, Seen::now(holder.one.clone(), row.kind));
                }
            }
        }
        Ok(clients.unwrap_or_else(|| locks.clients().to_vec()))
    }

    fn forget_the_last(&mut self) {
        if self.rows.len() > MOST_KNOWN {
            self.rows.select_nth_unstable_by(MOST_KNOWN, |one, other| one.rank().cmp(&other.rank()));
            self.unknown += u64::try_from(self.rows.len() - MOST_KNOWN).unwrap_or_default();
            self.rows.truncate(MOST_KNOWN);
        }
    }

    /// Shows those that are silent with the others of their keys, if a key is listed because of those.
    fn add(&mut self, missing: Missing) {
        self.unasked = missing.unasked;
        let mut places: HashMap<String, usize> = HashMap::new();
        if !missing.silent.is_empty() {
            places = self.rows.iter().enumerate().map(|(at, row)| (row.key.clone(), at)).collect();
        }
        for ((key, _), seen) in missing.silent {
            let holder = Holder { one: seen.aged(), silent: Silent::Yes };
            self.oldest = self.oldest.max(holder.one.since);
            let place = *places.entry(key).or_insert_with_key(|key| {
                self.rows.push(Row::of_nobody(key, seen.kind));
                self.rows.len() - 1
            });
            if let Some(row) = self.rows.get_mut(place) {
                self.held += u64::from(row.holders.is_empty());
                self.silent += usize::from(row.show(holder));
            }
        }
    }
}

impl Found {
    /// Nothing is missing.
    pub(super) fn is_complete(&self) -> bool {
        self.unknown == 0 && self.unasked == 0 && self.unanswered.is_empty()
    }

    /// What somebody who looks at the rows has to know.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.silent > 0 {
            let one = ("lock is held by a process that does", "Its lease ends by itself");
            let (what, leases) = of_number(
                self.silent,
                one,
                ("locks are held by processes that do", "Their leases end by themselves"),
            );
            notes.push(format!("{} {what} not answer (red). {leases}.", self.silent));
        }
        if self.unasked > 0 {
            let what = of_number(self.unasked, "lock", "locks");
            notes.push(format!("{} more {what} of processes that stopped answering.", self.unasked));
        }
        match &self.unanswered[..] {
            [] => {}
            [one] => notes
                .push(format!("No answer from {}: locks that it took unseen are missing here.", shown(one))),
            [one, more @ ..] => notes.push(format!(
                "No answer from {} and {} more: locks that they took unseen are missing here.",
                shown(one),
                more.len()
            )),
        }
        if self.unknown > 0 {
            notes.push(format!(
                "There are {} more locks than this page looks through: name a pattern when `distlock web` starts.",
                self.unknown
            ));
        }
        notes
    }
}

fn of_number<T>(count: usize, one: T, many: T) -> T {
    if count == 1 { one } else { many }
}

/// What all pages share.
#[derive(Clone, Debug, Default)]
pub(super) struct Snapshot {
    /// The last look that succeeded.
    pub(super) found: Option<Arc<Found>>,
    pub(super) trouble: Option<Trouble>,
    pub(super) losses: Vec<Loss>,
    pub(super) lost: u64,
}

/// The locks cannot be listed.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub(super) since: Instant,
    pub(super) error: LockError,
}
