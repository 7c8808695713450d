//! The wait-for graph: the holders of the keys that were read, and the keys for which they wait.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{Deadlock, DeadlockMember, Holder};
use crate::protocol::{WaitRecord, client_of};

/// The keys that were read, with their holders. `None`: the key is free, or its holder publishes nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitsFor(BTreeMap<Arc<str>, Option<Holder>>);

impl WaitsFor {
    pub(crate) fn insert(&mut self, key: Arc<str>, holder: Option<Holder>) {
        self.0.insert(key, holder);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[cfg(test)]
    pub(super) fn holder_at(&self, key: &str) -> Option<Holder> {
        self.holder(key).cloned()
    }

    /// Forgets the keys that cannot be part of a cycle.
    pub(crate) fn keep_those_that_wait(&mut self) {
        self.0.retain(|_, holder| holder.as_ref().is_some_and(|holder| !holder.waits.is_empty()));
    }

    fn holder(&self, key: &str) -> Option<&Holder> {
        self.0.get(key)?.as_ref()
    }

    /// The nearest key that was not read, for a request that waits for `start`.
    pub(crate) fn next_unread(&self, start: &Arc<str>) -> Option<Arc<str>> {
        let mut paths = Paths::from(start);
        while let Some(key) = paths.next() {
            if !self.0.contains_key(&key) {
                return Some(key);
            }
            paths.follow(self.holder(&key), &key);
        }
        None
    }

    /// The shortest cycle through the request `number` of `client`, which waits for `key`.
    pub(crate) fn cycle_through(&self, (client, number): (&str, u64), key: &Arc<str>) -> Option<Deadlock> {
        self.cycle(key, |_, holder| {
            let is_ours = client_of(&holder.owner) == Some(client);
            holder.waits.iter().find(|wait| is_ours && wait.number == number && wait.key == *key)
        })
    }

    /// A cycle through each request that is in one, each of them once.
    pub(crate) fn cycles(&self) -> Vec<Deadlock> {
        let mut found: Vec<Deadlock> = Vec::new();
        for (key, holder) in &self.0 {
            for wait in holder.iter().flat_map(|holder| &holder.waits) {
                let cycle = self.cycle(&wait.key, |reached, _| (reached == key).then_some(wait));
                found.extend(cycle.filter(|cycle| found.iter().all(|other| !cycle.is_same(other))));
            }
        }
        found
    }

    /// The shortest cycle that begins with a wait for `start`, and ends with the wait that `closes` finds at a holder.
    fn cycle<'a>(
        &'a self,
        start: &Arc<str>,
        closes: impl Fn(&Arc<str>, &'a Holder) -> Option<&'a WaitRecord>,
    ) -> Option<Deadlock> {
        let mut paths = Paths::from(start);
        while let Some(key) = paths.next() {
            let holder = self.holder(&key);
            if let Some((holder, last)) = holder.and_then(|holder| Some((holder, closes(&key, holder)?))) {
                let mut members = vec![DeadlockMember::new(&key, holder, last)];
                let mut at = &key;
                while let Some((before, wait)) = paths.came_from.get(at).and_then(Option::as_ref) {
                    members.push(DeadlockMember::new(before, self.holder(before)?, wait));
                    at = before;
                }
                members.reverse();
                return Some(Deadlock::new(members));
            }
            paths.follow(holder, &key);
        }
        None
    }
}

/// The keys that a request waits for, directly and by way of their holders: the nearest first.
struct Paths<'a> {
    todo: VecDeque<Arc<str>>,
    /// The key before each, and the wait of its holder. `None`: the first one.
    came_from: BTreeMap<Arc<str>, Option<(Arc<str>, &'a WaitRecord)>>,
}

impl<'a> Paths<'a> {
    fn from(start: &Arc<str>) -> Self {
        Paths { todo: VecDeque::from([start.clone()]), came_from: BTreeMap::from([(start.clone(), None)]) }
    }

    fn next(&mut self) -> Option<Arc<str>> {
        self.todo.pop_front()
    }

    fn follow(&mut self, holder: Option<&'a Holder>, key: &Arc<str>) {
        for wait in holder.iter().flat_map(|holder| &holder.waits) {
            if let Entry::Vacant(unseen) = self.came_from.entry(wait.key.clone()) {
                unseen.insert(Some((key.clone(), wait)));
                self.todo.push_back(wait.key.clone());
            }
        }
    }
}
