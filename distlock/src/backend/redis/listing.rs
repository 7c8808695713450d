//! Which locks there are, who holds them and who waits, and what these have written about themselves.
//!
//! Another program may have written the data that is read here. So texts are cut and lists are bounded on the server
//! (`scripts/look.lua`, `scripts/scan.lua`), and the results of a search have a bound, too.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::exec::Exec;
use super::link::Link;
use super::names::Names;
use super::operation::{Inspect, Operation, Read};
use crate::backend::{
    BoxFuture, Failure, ListPage, MARK, OpResult, OwnerDetails, StoreError, StoredLock, StoredLocks, Who,
    client_of,
};
use crate::protocol::records::{LONGEST_CLIENT, LONGEST_KEY, read_hold_record, read_process_record};
use distlock_store::clock;

/// A process whose record is older has missed three writings of it.
const SILENT_AFTER: Duration = Duration::from_secs(15);
/// No more records are read for one look at some keys.
const MOST_RECORDS: usize = 4_000;
/// No more clients are listed.
const MOST_CLIENTS: usize = 10_000;
/// The memory limit for the keys of one search, and the memory of each key in addition to its text.
const MAX_SEARCH_BYTES: usize = 4 << 20;
const BYTES_PER_KEY: usize = 64;
/// A search ends after this time, even if it is not complete.
const LONGEST_SEARCH: Duration = Duration::from_secs(60);

/// A store that executes many operations at once.
pub(super) trait Batches: Send + Sync {
    /// Returns one result for each, in order.
    fn batch<O: Operation>(&self, batch: Vec<(Arc<str>, O)>) -> BoxFuture<Vec<OpResult<O::Reply>>>;
}

/// The keys to search for.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    pub(super) beginning: String,
    after: Option<Arc<str>>,
}

impl Search {
    pub(crate) fn new(beginning: &str, after: Option<Arc<str>>) -> Search {
        Search { beginning: beginning.to_owned(), after }
    }

    /// Names are looked through only once for clients, and only if all names are looked at.
    fn finds_clients(&self) -> bool {
        self.beginning.is_empty() && self.after.is_none()
    }
}

/// The result of a search: the first keys in order, and none twice. The servers may name keys in any order and
/// repeatedly.
#[derive(Debug)]
pub(crate) struct ScanResult {
    search: Search,
    keys: BTreeSet<Arc<str>>,
    size: usize,
    /// There are keys behind these.
    is_cut: bool,
    clients: BTreeSet<Arc<str>>,
    /// Servers that could not be looked through.
    pub(crate) unread: Vec<String>,
}

impl ScanResult {
    pub(crate) fn new(search: Search) -> ScanResult {
        let (keys, clients) = (BTreeSet::new(), BTreeSet::new());
        ScanResult { search, keys, size: 0, is_cut: false, clients, unread: Vec::new() }
    }

    fn add(&mut self, names: &Names, name: &str) {
        let Some(key) = names.key_of(name).filter(|key| !key.is_empty() && key.len() <= LONGEST_KEY) else {
            return;
        };
        if let Some(client) = names.client_of_record(name) {
            if self.search.finds_clients()
                && client.len() <= LONGEST_CLIENT
                && self.clients.len() < MOST_CLIENTS
            {
                self.clients.insert(client.into());
            }
            return;
        }
        let is_behind = self.search.after.as_deref().is_none_or(|after| key > after);
        let is_early = !self.is_cut || self.keys.last().is_some_and(|last| *key < **last);
        // With another prefix, too, what contains the mark belongs to a lock.
        if !is_behind || !is_early || !key.starts_with(&self.search.beginning) || key.contains(MARK) {
            return;
        }
        if self.keys.insert(key.into()) {
            self.size += key.len() + BYTES_PER_KEY;
        }
        while self.size > MAX_SEARCH_BYTES
            && let Some(last) = self.keys.pop_last()
        {
            self.size -= last.len() + BYTES_PER_KEY;
            self.is_cut = true;
        }
    }

    /// Also returns the records of the connected clients.
    pub(super) async fn page(self, store: &impl Batches) -> ListPage {
        let next = self.keys.last().filter(|_| self.is_cut).cloned();
        let records = processes(store, self.clients).await;
        let alive = |(client, process): (Arc<str>, ProcessRecord)| {
            Some((client, process.who.filter(|_| !process.is_silent)?))
        };
        let clients = records.into_iter().filter_map(alive).collect();
        ListPage {
            locks: Vec::new(),
            keys: self.keys.into_iter().collect(),
            clients,
            unread: self.unread,
            next,
        }
    }
}

/// Searches the names on one server in parts. Between two parts, the server serves other clients.
pub(super) async fn search(
    exec: &Exec,
    link: &Link,
    place: &str,
    found: &mut ScanResult,
) -> Result<(), StoreError> {
    let pattern = exec.wire.names.pattern(&found.search.beginning);
    let until = clock::now().after(LONGEST_SEARCH);
    let mut cursor = "0".to_owned();
    loop {
        let (next, names) = exec.scan(link, &cursor, &pattern).await?;
        for name in &names {
            found.add(&exec.wire.names, name);
        }
        if next == "0" {
            return Ok(());
        }
        if clock::now() >= until {
            found.unread.push(place.to_owned());
            return Ok(());
        }
        cursor = next;
    }
}

/// The content of a process's record.
#[derive(Debug, Default)]
struct ProcessRecord {
    who: Option<Who>,
    /// It should have given a sign of life.
    is_silent: bool,
}

impl ProcessRecord {
    /// An unreadable record has no content.
    fn of(record: OpResult<Option<(String, Duration)>>) -> ProcessRecord {
        let Ok(record) = record else { return ProcessRecord::default() };
        match record.and_then(|(text, left)| read_process_record(&text, left)) {
            Some((who, age)) => ProcessRecord { who: Some(who), is_silent: age >= SILENT_AFTER },
            None => ProcessRecord { who: None, is_silent: true },
        }
    }
}

async fn processes(store: &impl Batches, clients: BTreeSet<Arc<str>>) -> HashMap<Arc<str>, ProcessRecord> {
    let batch = clients.iter().map(|client| (Names::record_key(client), Read::Itself)).collect();
    let records = store.batch(batch).await.into_iter().map(ProcessRecord::of);
    clients.into_iter().zip(records).collect()
}

/// Reads the holders and waiters of these keys, with their records. It takes two round trips.
pub(super) async fn inspect(store: &impl Batches, keys: &[Arc<str>]) -> Vec<OpResult<Option<StoredLock>>> {
    let mut looks = store.batch(keys.iter().map(|key| (key.clone(), Inspect)).collect()).await;
    let (mut holds, mut clients) = (Vec::new(), BTreeSet::new());
    for (key, look) in keys.iter().zip(&looks) {
        let Ok(Some(found)) = look else { continue };
        for token in holders(found) {
            if let Some(client) = client_of(token) {
                holds.push((key.clone(), Read::Beside(Arc::from(token))));
                clients.insert(Arc::from(client));
            }
        }
        clients.extend(found.waiting.iter().filter_map(|token| client_of(token)).map(Arc::from));
    }
    holds.truncate(MOST_RECORDS);
    let clients: BTreeSet<Arc<str>> = clients.into_iter().take(MOST_RECORDS).collect();
    if holds.is_empty() && clients.is_empty() {
        return looks;
    }
    let tokens: Vec<Option<Arc<str>>> = holds.iter().map(|(_, read)| read.token()).collect();
    let (records, processes) = tokio::join!(store.batch(holds), processes(store, clients));
    let records: HashMap<Arc<str>, OwnerDetails> = tokens
        .into_iter()
        .zip(records)
        .filter_map(|(token, record)| {
            let (text, left) = record.ok()??;
            Some((token?, read_hold_record(&text, left)?))
        })
        .collect();
    for found in looks.iter_mut().filter_map(|look| look.as_mut().ok()?.as_mut()) {
        describe(found, &records, &processes);
    }
    looks
}

fn holders(found: &StoredLock) -> impl Iterator<Item = &str> {
    found.holders.iter().map(|(token, _)| &**token)
}

fn describe(
    found: &mut StoredLock,
    records: &HashMap<Arc<str>, OwnerDetails>,
    processes: &HashMap<Arc<str>, ProcessRecord>,
) {
    let mut silent = BTreeSet::new();
    let mut details = Vec::new();
    for token in holders(found).chain(found.waiting.iter().map(|token| &**token)) {
        let Some((client, process)) = client_of(token).and_then(|client| processes.get_key_value(client))
        else {
            continue;
        };
        if process.is_silent {
            silent.insert(client.to_string());
        }
        let known = records.get(token).cloned().unwrap_or_default();
        details
            .push((token.to_owned(), OwnerDetails { who: process.who.clone().unwrap_or_default(), ..known }));
    }
    found.details = details;
    found.silent = silent.into_iter().collect();
}

pub(super) async fn inspect_one(store: impl Batches, key: Arc<str>) -> OpResult<Option<StoredLock>> {
    inspect(&store, &[key]).await.pop().unwrap_or(Ok(None))
}

/// The locks among these keys. What is none, or what the user may not read, is left out.
pub(super) async fn inspect_all(store: impl Batches, keys: Vec<Arc<str>>) -> Result<StoredLocks, StoreError> {
    let looks = inspect(&store, &keys).await;
    let mut locks = Vec::new();
    for (key, look) in keys.into_iter().zip(looks) {
        match look {
            Ok(found) => locks.extend(found.map(|found| (key, found))),
            Err(error) if error.kind == Failure::Refused => {}
            Err(error) => return Err(error),
        }
    }
    Ok(locks)
}

/// For the fuzz target that reads what a search finds: names in the order in which servers find them, and a record.
#[cfg(any(test, fuzzing))]
pub(super) fn fuzz<'a>(found: impl Iterator<Item = &'a str> + Clone, record: &str) {
    let names = Names::new("p:".to_owned());
    for after in [None, Some("k".into())] {
        let mut result = ScanResult::new(Search::new("", after));
        found.clone().for_each(|name| result.add(&names, name));
        assert!(result.size <= MAX_SEARCH_BYTES && result.clients.len() <= MOST_CLIENTS);
        assert!(result.keys.iter().all(|key| !key.is_empty() && key.len() <= LONGEST_KEY));
        assert!(result.clients.iter().all(|client| client.len() <= LONGEST_CLIENT));
    }
    let read = ProcessRecord::of(Ok(Some((record.to_owned(), Duration::from_secs(3)))));
    assert!(read.who.is_some() || read.is_silent, "a record that says nothing");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::command::PROCESS_RECORD_TTL;

    fn found(search: Search, names: &Names, given: &[&str]) -> ScanResult {
        let mut found = ScanResult::new(search);
        for name in given {
            found.add(names, name);
        }
        found
    }

    fn keys(found: &ScanResult) -> Vec<&str> {
        found.keys.iter().map(|key| &**key).collect()
    }

    #[test]
    fn keys_come_in_order_and_once_and_nothing_else_does() {
        let names = Names::new("shop:".to_owned());
        let given = [
            "shop:b",
            "shop:a",
            "shop:b",
            "other:a",
            "shop:",
            "shop:dl1:q:a",
            "shop:dl1:i:web.1",
            "shop:eu:dl1:f",
        ];
        let all = found(Search::new("", None), &names, &given);
        assert_eq!(keys(&all), ["a", "b"]);
        assert_eq!(all.clients.iter().map(|client| &**client).collect::<Vec<_>>(), ["web.1"]);
        assert_eq!(keys(&found(Search::new("", Some("a".into())), &names, &given)), ["b"]);
        assert_eq!(keys(&found(Search::new("b", None), &names, &given)), ["b"]);
        let long = "shop:".to_owned() + &"x".repeat(LONGEST_KEY + 1);
        assert!(keys(&found(Search::new("", None), &names, &[&long])).is_empty());
    }

    /// This holds for any number and any order of names.
    #[test]
    fn of_more_keys_than_have_room_the_first_are_kept_and_the_others_come_behind_them() {
        let names = Names::new(String::new());
        let long = "x".repeat(900);
        let mut all: Vec<String> = (0..10_000).map(|number| format!("{number:05}{long}")).collect();
        fastrand::Rng::with_seed(7).shuffle(&mut all);
        let (mut seen, mut after) = (Vec::new(), None);
        for _ in 0..10 {
            let mut page = ScanResult::new(Search::new("", after));
            for name in &all {
                page.add(&names, name);
                assert!(page.size <= MAX_SEARCH_BYTES);
            }
            after = page.keys.last().filter(|_| page.is_cut).cloned();
            seen.extend(page.keys);
            if after.is_none() {
                break;
            }
        }
        all.sort_unstable();
        assert_eq!(after, None);
        assert!(seen.iter().map(|key| &**key).eq(all.iter().map(String::as_str)));
    }

    #[test]
    fn a_process_is_silent_if_its_record_is_old_or_missing_and_not_if_it_may_not_be_read() {
        let record = |left| {
            let who = Who { pid: Some(1), ..Who::default() };
            Ok(Some((crate::protocol::records::process_record(PROCESS_RECORD_TTL, &who), left)))
        };
        let left = |age| PROCESS_RECORD_TTL - age;
        assert!(!ProcessRecord::of(record(left(SILENT_AFTER / 2))).is_silent);
        let old = ProcessRecord::of(record(left(SILENT_AFTER)));
        assert!(old.is_silent && old.who.is_some());
        assert!(ProcessRecord::of(Ok(None)).is_silent);
        assert!(ProcessRecord::of(Ok(Some(("garbage".to_owned(), Duration::ZERO)))).is_silent);
        assert!(!ProcessRecord::of(Err(StoreError::new(Failure::Refused, "NOPERM"))).is_silent);
    }
}
