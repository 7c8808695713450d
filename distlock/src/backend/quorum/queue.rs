//! The state of the queues: which server keeps a key's queue, whether other processes want the key, and when waiters
//! ask again.
//!
//! The waiters of a key queue on one server: the first that can be used, in an order that depends on the key. So a
//! release wakes one waiter, and not one for each server. Safety never depends on the queue: a lock is held by a
//! majority, and the queue is only a place to wait and to be woken.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::super::Token;
use crate::protocol::{Time, mutated};

/// If a server has not replied for this long, no round waits for its vote, and no waiter waits in its queue.
pub(super) const SILENT_AFTER: Duration = Duration::from_millis(200);
/// If a key was found busy within this time, other processes are assumed to want it.
const WANTED_FOR: Duration = Duration::from_secs(1);
/// After a release, the next request of this process for the key waits this long until the queue server reports whether
/// it has a waiter.
const COOLDOWN: Duration = Duration::from_millis(10);
/// With this many keys, those that no process wants are removed.
const FIRST_SWEEP: usize = 1024;

/// The known demand for one key.
#[derive(Debug, Default)]
struct KeyDemand {
    /// Other processes probably want the key until this time.
    wanted: Option<Time>,
    /// The round that releases the key, and the end of the wait until the queue server reports whether it has a waiter.
    release: Option<(u64, Time)>,
}

impl KeyDemand {
    fn is_wanted(&self, now: Time) -> bool {
        self.wanted.is_some_and(|until| until > now)
    }

    fn is_released(&self, now: Time) -> bool {
        self.release.is_some_and(|(_, until)| until > now)
    }
}

#[derive(Debug)]
pub(super) struct Queues {
    keys: HashMap<Arc<str>, KeyDemand>,
    sweep_at: usize,
    /// The rounds that request a lock, and the times at which they continue without the missing replies. Ordered by
    /// these times.
    undecided: VecDeque<(Time, u64)>,
    /// When waiters have to ask again.
    again: Vec<(Time, Token)>,
}

impl Queues {
    pub(super) fn new() -> Queues {
        Queues { keys: HashMap::new(), sweep_at: FIRST_SWEEP, undecided: VecDeque::new(), again: Vec::new() }
    }

    fn demand(&mut self, now: Time, key: &Arc<str>) -> &mut KeyDemand {
        if self.keys.len() >= self.sweep_at {
            self.keys.retain(|_, demand| demand.is_wanted(now) || demand.is_released(now));
            self.sweep_at = FIRST_SWEEP.max(2 * self.keys.len());
        }
        self.keys.entry(key.clone()).or_default()
    }

    /// Another process was seen to hold the key or to wait for it.
    pub(super) fn others_want(&mut self, now: Time, key: &Arc<str>) {
        self.demand(now, key).wanted = Some(now.after(WANTED_FOR));
    }

    /// Whether another process wants the key, as far as this process knows.
    pub(super) fn is_wanted(&self, now: Time, key: &str) -> bool {
        self.keys.get(key).is_some_and(|demand| demand.is_wanted(now))
    }

    /// This round releases a lock that was held.
    pub(super) fn releases(&mut self, now: Time, key: &Arc<str>, round: u64) {
        self.demand(now, key).release = Some((round, now.after(COOLDOWN)));
    }

    /// The queue server's reply to this release: it has no waiter.
    pub(super) fn nobody_waits(&mut self, key: &str, round: u64) {
        if let Some(demand) = self.keys.get_mut(key)
            && demand.release.is_some_and(|(release, _)| release == round)
        {
            demand.release = None;
        }
    }

    /// Whether this process has just released the key, and another process may acquire it first.
    pub(super) fn stands_back(&self, now: Time, key: &str) -> bool {
        self.keys.get(key).is_some_and(|demand| demand.is_released(now)) && !mutated!(ReleaserNotLast)
    }

    /// This round waits for replies.
    pub(super) fn expects(&mut self, now: Time, round: u64) {
        self.undecided.push_back((now.after(SILENT_AFTER), round));
    }

    /// Removes and returns the next round that has waited too long.
    pub(super) fn next_overdue(&mut self, now: Time) -> Option<u64> {
        if self.undecided.front().is_some_and(|(at, _)| *at <= now) {
            return self.undecided.pop_front().map(|(_, round)| round);
        }
        None
    }

    /// Removes rounds at the front that are over.
    pub(super) fn keep_waiting_for(&mut self, is_open: impl Fn(u64) -> bool) {
        while let Some((_, round)) = self.undecided.front()
            && !is_open(*round)
        {
            self.undecided.pop_front();
        }
    }

    /// The waiter asks again at this time, or at the planned time if that is sooner.
    pub(super) fn ask_again_at(&mut self, at: Time, token: Token) {
        match self.again.iter_mut().find(|(_, planned)| *planned == token) {
            Some((sooner, _)) => *sooner = at.min(*sooner),
            None => self.again.push((at, token)),
        }
    }

    /// Removes the plan of a waiter that asks now, or no longer asks.
    pub(super) fn has_asked(&mut self, token: Token) {
        self.again.retain(|(_, planned)| *planned != token);
    }

    /// The waiters that have to ask now, in order.
    pub(super) fn take_due(&mut self, now: Time) -> Vec<Token> {
        let mut due: Vec<_> = self.again.extract_if(.., |(at, _)| *at <= now).collect();
        due.sort_unstable();
        due.into_iter().map(|(_, token)| token).collect()
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        let again = self.again.iter().map(|(at, _)| *at).min();
        self.undecided.front().map(|(at, _)| *at).into_iter().chain(again).min()
    }
}

/// The order in which the servers are tried as the queue server of a key. It is the same for every process, because the
/// servers are numbered in the order of their names.
pub(super) fn order(key: &str, servers: usize) -> impl DoubleEndedIterator<Item = usize> {
    let start = number_of(key) % servers;
    (0..servers).map(move |at| (start + at) % servers)
}

/// FNV-1a: the same in every process.
fn number_of(key: &str) -> usize {
    let hash =
        key.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    usize::try_from(hash).unwrap_or(0)
}
