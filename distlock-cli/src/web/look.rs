//! One listing of all locks, and the state that is kept between two listings.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock::{LockClient, LockError, LockManager, LockWaiter};

use super::view::{Loss, Row, is_silent};
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
    pub(super) unknown: usize,
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
        self.add(&mut found, &clients, taken);
        Ok(found)
    }

    fn add(&mut self, found: &mut ListedLocks, clients: &[LockClient], taken: impl Fn(&str, &str) -> bool) {
        found.rates = self.meter.look(Instant::now(), clients);
        self.count_losses(found, clients);
        let listed = std::mem::take(&mut found.holders);
        let now = Instant::now();
        for ((key, _), seen) in self.known.update(listed, found.would_list()) {
            let left = seen.left();
            self.gone.push_front(Gone { key, seen, at: now, left });
        }
        self.gone.truncate(MOST_KNOWN);
        let (released, gone): (Vec<Gone>, Vec<Gone>) = std::mem::take(&mut self.gone)
            .into_iter()
            .partition(|gone| taken(&gone.key, &gone.seen.holder.token));
        for gone in released {
            self.lost(gone, "released by this page");
        }
        let certain = found.clients_that_lost_all(&gone);
        for gone in gone {
            match gone.why(found, &certain) {
                Some(why) => self.lost(gone, why),
                None if gone.at.elapsed() < SAID_WITHIN => self.gone.push_back(gone),
                // As far as the listings show, the lock was released.
                None => {}
            }
        }
        self.lost += found.lost_by.values().sum::<u64>();
        found.rows.sort_by(|one, other| one.rank().cmp(&other.rank()));
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
    fn client(&self) -> &str {
        self.seen.holder.client.as_ref().map(|client| client.id.as_str()).unwrap_or_default()
    }

    /// The reason why the holder has lost the lock, as far as it is known by now. `None`: it has released the lock.
    /// `certain`: the clients that have lost all their locks that are gone.
    fn why(&self, found: &mut ListedLocks, certain: &HashSet<String>) -> Option<&'static str> {
        let client = self.client();
        if let Some(lost) =
            found.lost_by.get_mut(client).filter(|lost| **lost > 0 && certain.contains(client))
        {
            *lost -= 1;
            return Some("its holder says that it was lost");
        }
        // The time alone proves nothing: if looks are rare, the lease may have been renewed, and the lock released,
        // since the last one.
        let has_expired = self.left <= NOT_RENEWED && self.seen.was_not_renewed();
        has_expired.then_some("its lease expired without a renewal")
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
        let mut silent = HashSet::new();
        let until = tokio::time::Instant::now() + LONGEST_LOOK;
        loop {
            let Ok(next) = tokio::time::timeout_at(until, locks.next()).await else {
                self.is_whole = false;
                break;
            };
            let Some(entry) = next.transpose()? else { break };
            self.held += u64::from(!entry.holders.is_empty());
            self.awaited += u64::from(entry.waiters > 0);
            // Each process counts once, and further requests of this process, which knows them.
            let further =
                |waiter: &LockWaiter| waiter.requests.map_or(0, |requests| requests.saturating_sub(1));
            self.waiting += entry.waiters + entry.waiting.iter().map(further).sum::<u64>();
            // A client is reported before the first lock that it holds.
            let known = silent.len();
            silent.extend(locks.unanswered().iter().skip(known).cloned());
            self.silent += entry.holders.iter().filter(|holder| is_silent(holder, &silent)).count();
            let row = Row::new(entry, &silent);
            self.oldest = self.oldest.max(row.age());
            self.rows.push(row);
            if self.rows.len() >= 2 * MOST_KNOWN {
                self.forget_the_last();
            }
        }
        self.forget_the_last();
        self.at = Instant::now();
        self.unread.extend_from_slice(locks.unread());
        for row in &self.rows {
            for holder in &row.holders {
                let name = (row.key.clone(), holder.one.token.clone());
                let seen = KnownHolder::now(holder.one.clone(), holder.silent);
                self.holders.insert(name, seen);
            }
        }
        Ok(locks.clients().to_vec())
    }

    fn forget_the_last(&mut self) {
        if self.rows.len() > MOST_KNOWN {
            self.rows.select_nth_unstable_by(MOST_KNOWN, |one, other| one.rank().cmp(&other.rank()));
            self.unknown += self.rows.len() - MOST_KNOWN;
            self.rows.truncate(MOST_KNOWN);
        }
    }
}

impl ListedLocks {
    /// Whether no lock is missing.
    pub(super) fn is_complete(&self) -> bool {
        self.unknown == 0 && self.is_whole && self.unread.is_empty()
    }

    /// Whether this look would have listed a holder if it still held the lock.
    fn would_list(&self) -> impl Fn(&Name) -> bool + '_ {
        let is_whole = self.is_whole && self.unread.is_empty();
        let hidden: HashMap<&str, usize> = self.rows.iter().map(|row| (&*row.key, row.hidden)).collect();
        move |(key, _)| is_whole && *hidden.get(&**key).unwrap_or(&self.unknown) == 0
    }

    /// The clients that report at least as many losses as holders of them are gone. If a client reports fewer, it is
    /// unknown which locks it has lost, and which it has released.
    fn clients_that_lost_all(&self, gone: &[Gone]) -> HashSet<String> {
        let is_certain = |client: &str, lost: u64| {
            let candidates = gone.iter().filter(|gone| gone.client() == client).count();
            u64::try_from(candidates).is_ok_and(|candidates| candidates <= lost)
        };
        let lost = self.lost_by.iter().filter(|(client, lost)| **lost > 0 && is_certain(client, **lost));
        lost.map(|(client, _)| client.clone()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_millis(700);

    async fn listed(manager: &LockManager) -> ListedLocks {
        let mut found = ListedLocks::new();
        found.list(manager, "*").await.expect("they are listed");
        found
    }

    /// A look that finds these clients.
    async fn look(history: &mut History, manager: &LockManager, clients: &[LockClient]) -> ListedLocks {
        let mut found = listed(manager).await;
        history.add(&mut found, clients, |_, _| false);
        found
    }

    /// The client of this manager, with this number of lost holds.
    async fn lost(manager: &LockManager, key: &str, lost: u64) -> LockClient {
        let mut lock = manager.inspect(key).await.expect("it is read").expect("it is held");
        let mut client = lock.holders.remove(0).client.expect("it is one of this library");
        client.lost = Some(lost);
        client
    }

    /// The lease was renewed after the last look, which is long ago.
    #[tokio::test]
    async fn a_lock_that_is_released_long_after_the_last_look_is_not_lost() {
        let manager = LockManager::in_memory();
        let mut history = History::default();
        let guard = manager.lock("k").ttl(TTL).acquire().await.unwrap();
        look(&mut history, &manager, &[]).await;
        history.known.age(TTL * 2);
        guard.release().await.unwrap();
        look(&mut history, &manager, &[]).await;
        assert_eq!((history.losses.len(), history.lost, history.gone.len()), (0, 0, 1));
    }

    #[tokio::test]
    async fn a_lock_whose_lease_had_run_low_at_the_last_look_is_lost() {
        let manager = LockManager::in_memory();
        let mut history = History::default();
        let guard = manager.lock("k").ttl(TTL).acquire().await.unwrap();
        look(&mut history, &manager, &[]).await;
        let mut found = listed(&manager).await;
        for seen in found.holders.values_mut() {
            seen.holder.remaining = Some(TTL / 3);
        }
        history.add(&mut found, &[], |_, _| false);
        history.known.age(TTL);
        guard.release().await.unwrap();
        look(&mut history, &manager, &[]).await;
        assert_eq!(history.losses[0].why, "its lease expired without a renewal");
    }

    #[tokio::test]
    async fn a_loss_that_a_client_reports_is_that_of_its_only_holder_that_is_gone() {
        for keys in [&["a"][..], &["a", "b"]] {
            let manager = LockManager::in_memory();
            let mut history = History::default();
            let mut guards = Vec::new();
            for key in keys {
                guards.push(manager.lock(*key).acquire().await.unwrap());
            }
            let (before, after) = (lost(&manager, "a", 3).await, lost(&manager, "a", 4).await);
            look(&mut history, &manager, &[before]).await;
            for guard in guards {
                guard.release().await.unwrap();
            }
            look(&mut history, &manager, &[after]).await;
            assert_eq!((history.losses.len(), history.lost), (usize::from(keys.len() == 1), 1), "{keys:?}");
        }
    }

    /// The holders are listed in the order of their leases, and a renewal changes it.
    #[tokio::test]
    async fn holders_that_do_not_fit_on_the_page_are_not_gone() {
        let manager = LockManager::in_memory();
        let mut history = History::default();
        let mut guards = Vec::new();
        for _ in 0..60 {
            guards.push(manager.lock("k").max_holders(100).acquire().await.unwrap());
        }
        let shown = |found: &ListedLocks| -> Vec<String> {
            found.rows[0].holders.iter().map(|holder| holder.one.token.clone()).collect()
        };
        let before = shown(&look(&mut history, &manager, &[]).await);
        for guard in guards.iter().filter(|guard| !before.contains(&guard.owner())) {
            guard.extend(Duration::from_secs(600)).await.unwrap();
        }
        let found = look(&mut history, &manager, &[]).await;
        assert_ne!(shown(&found), before);
        assert_eq!((found.rows[0].hidden, history.gone.len(), history.losses.len()), (10, 0, 0));
        for guard in guards.drain(20..) {
            guard.release().await.unwrap();
        }
        assert_eq!(look(&mut history, &manager, &[]).await.rows[0].hidden, 0);
        assert_eq!(history.gone.len(), 40);
    }
}
