//! What is known about the queues: which server keeps a key's queue, who else wants the key, and when to ask again.
//!
//! Waiters of one key queue on one server, the first in an order that the key decides and that can be used: so that
//! a release wakes one of them instead of one for each server. Safety never depends on it: a lock is held by whoever
//! has a majority, and the queue is only a place to wait and to be woken.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::super::Token;
use crate::protocol::{Time, mutated};

/// Who has not answered for so long is not waited for: neither for its vote, nor in its queue.
pub(super) const SILENT: Duration = Duration::from_millis(200);
/// Others want a key that was busy so recently.
const WANTED: Duration = Duration::from_secs(1);
/// For so long after a release the answer of its queue server is waited for.
const COOLDOWN: Duration = Duration::from_millis(10);
/// Keys that nobody wants any more are looked for when there are this many.
const FIRST_SWEEP: usize = 1024;

/// What is known of the demand for one key.
#[derive(Debug, Default)]
struct Demand {
    /// Others want it, probably, until then.
    wanted: Option<Time>,
    /// This round gives it back, and until then nobody has said whether somebody waits.
    release: Option<(u64, Time)>,
}

impl Demand {
    fn is_wanted(&self, now: Time) -> bool {
        self.wanted.is_some_and(|until| until > now)
    }

    fn is_released(&self, now: Time) -> bool {
        self.release.is_some_and(|(_, until)| until > now)
    }
}

#[derive(Debug)]
pub(super) struct Queues {
    keys: HashMap<Arc<str>, Demand>,
    sweep_at: usize,
    /// Rounds that ask for a lock, and when they go on without servers that have not answered. In the order of these
    /// times.
    undecided: VecDeque<(Time, u64)>,
    /// When waiters are told to ask again.
    again: Vec<(Time, Token)>,
}

impl Queues {
    pub(super) fn new() -> Queues {
        Queues { keys: HashMap::new(), sweep_at: FIRST_SWEEP, undecided: VecDeque::new(), again: Vec::new() }
    }

    fn demand(&mut self, now: Time, key: &Arc<str>) -> &mut Demand {
        if self.keys.len() >= self.sweep_at {
            self.keys.retain(|_, demand| demand.is_wanted(now) || demand.is_released(now));
            self.sweep_at = FIRST_SWEEP.max(2 * self.keys.len());
        }
        self.keys.entry(key.clone()).or_default()
    }

    /// Somebody else was seen to have the key, or to wait for it.
    pub(super) fn others_want(&mut self, now: Time, key: &Arc<str>) {
        self.demand(now, key).wanted = Some(now.after(WANTED));
    }

    /// Whether somebody else wants the key, as far as we know.
    pub(super) fn is_wanted(&self, now: Time, key: &str) -> bool {
        self.keys.get(key).is_some_and(|demand| demand.is_wanted(now))
    }

    /// This round gives back a lock that was held.
    pub(super) fn releases(&mut self, now: Time, key: &Arc<str>, round: u64) {
        self.demand(now, key).release = Some((round, now.after(COOLDOWN)));
    }

    /// The queue server says of this release that nobody waits.
    pub(super) fn nobody_waits(&mut self, key: &str, round: u64) {
        if let Some(demand) = self.keys.get_mut(key)
            && demand.release.is_some_and(|(release, _)| release == round)
        {
            demand.release = None;
        }
    }

    /// Whether we have just given the key back, and somebody else may have been let in.
    pub(super) fn stands_back(&self, now: Time, key: &str) -> bool {
        self.keys.get(key).is_some_and(|demand| demand.is_released(now)) && !mutated!(ReleaserNotLast)
    }

    /// This round waits for answers.
    pub(super) fn expects(&mut self, now: Time, round: u64) {
        self.undecided.push_back((now.after(SILENT), round));
    }

    /// The next round that has waited for too long.
    pub(super) fn next_overdue(&mut self, now: Time) -> Option<u64> {
        if self.undecided.front().is_some_and(|(at, _)| *at <= now) {
            return self.undecided.pop_front().map(|(_, round)| round);
        }
        None
    }

    /// Rounds that are over are waited for no longer.
    pub(super) fn keep_waiting_for(&mut self, is_open: impl Fn(u64) -> bool) {
        while let Some((_, round)) = self.undecided.front()
            && !is_open(*round)
        {
            self.undecided.pop_front();
        }
    }

    /// The waiter asks again then, or sooner if that is planned.
    pub(super) fn ask_again_at(&mut self, at: Time, token: Token) {
        match self.again.iter_mut().find(|(_, planned)| *planned == token) {
            Some((sooner, _)) => *sooner = at.min(*sooner),
            None => self.again.push((at, token)),
        }
    }

    /// It asks now, or never again.
    pub(super) fn has_asked(&mut self, token: Token) {
        self.again.retain(|(_, planned)| *planned != token);
    }

    /// Those who are to ask now, in order.
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

/// The servers in the order in which they keep a key's queue: the same for everybody.
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
