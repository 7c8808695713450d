//! The order of the commands. Commands for one key follow each other, in the order in which they were added. Commands
//! for different keys do not wait for each other. A command for several keys waits for its turn on each of them. It is
//! added to all of them at once, so two commands never wait for each other.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use distlock_store::kit::shrink::shrink;

/// At most this many commands may wait for their turn on one key.
pub(super) const MOST_PER_KEY: usize = 4096;

/// Names a command from its addition to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CommandId(u64);

/// Commands that wait for their turn, or have it.
#[derive(Debug)]
pub(super) struct Lanes<W> {
    /// The first of each has its turn on this key.
    queues: HashMap<Arc<str>, VecDeque<CommandId>>,
    /// The commands that wait, and the number of keys that each waits for.
    waiting: HashMap<CommandId, Waiting<W>>,
    next: u64,
    /// From now on, no command gets its turn.
    has_ended: bool,
}

#[derive(Debug)]
struct Waiting<W> {
    keys: usize,
    work: W,
}

/// The result of an addition.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// It has its turn at once.
    Start(CommandId),
    /// It has to wait. The caller must pass its work to [`Lanes::wait`] at once.
    Waits(QueuedTurn),
    /// Too many wait for one of its keys.
    Full,
    /// The lanes have ended.
    Ended,
}

/// A command that has to wait for its turn, on this many keys.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QueuedTurn {
    id: CommandId,
    keys: usize,
}

impl<W> Default for Lanes<W> {
    fn default() -> Self {
        Lanes { queues: HashMap::new(), waiting: HashMap::new(), next: 0, has_ended: false }
    }
}

impl<W> Lanes<W> {
    /// Adds a command for these keys, which are different from each other.
    pub(super) fn add(&mut self, keys: &[Arc<str>]) -> Added {
        if self.has_ended {
            return Added::Ended;
        }
        let is_full = |key| self.queues.get(key).is_some_and(|queue| queue.len() >= MOST_PER_KEY);
        if keys.iter().any(is_full) {
            return Added::Full;
        }
        let id = CommandId(self.next);
        self.next = self.next.wrapping_add(1);
        let mut behind = 0;
        for key in keys {
            let queue = self.queues.entry(key.clone()).or_default();
            behind += usize::from(!queue.is_empty());
            queue.push_back(id);
        }
        if behind == 0 {
            return Added::Start(id);
        }
        Added::Waits(QueuedTurn { id, keys: behind })
    }

    /// Whether a command for this key is in flight, or waits for its turn.
    pub(super) fn is_busy(&self, key: &Arc<str>) -> bool {
        self.queues.contains_key(key)
    }

    /// [`Lanes::ended`] will return this work.
    pub(super) fn wait(&mut self, QueuedTurn { id, keys }: QueuedTurn, work: W) {
        self.waiting.insert(id, Waiting { keys, work });
    }

    /// A command that had its turn gives it up. Returns those whose turn it is now.
    pub(super) fn ended(&mut self, id: CommandId, keys: &[Arc<str>]) -> Vec<(CommandId, W)> {
        let mut next = Vec::new();
        for key in keys {
            let Some(queue) = self.queues.get_mut(key) else { continue };
            if queue.front() != Some(&id) {
                continue;
            }
            queue.pop_front();
            match queue.front().copied() {
                Some(first) => next.extend(self.turn_of(first)),
                None => {
                    self.queues.remove(key);
                }
            }
        }
        shrink(&mut self.queues);
        next
    }

    /// From now on, no command gets its turn. Returns those that wait.
    pub(super) fn end(&mut self) -> Vec<W> {
        self.has_ended = true;
        self.queues.clear();
        self.waiting.drain().map(|(_, waiting)| waiting.work).collect()
    }

    /// A command has its turn on one more key. Returns it if that was the last.
    fn turn_of(&mut self, id: CommandId) -> Option<(CommandId, W)> {
        let waiting = self.waiting.get_mut(&id)?;
        waiting.keys -= 1;
        if waiting.keys > 0 {
            return None;
        }
        self.waiting.remove(&id).map(|waiting| (id, waiting.work))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> Vec<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    fn start(lanes: &mut Lanes<u32>, names: &[&str]) -> CommandId {
        match lanes.add(&keys(names)) {
            Added::Start(id) => id,
            other => panic!("{other:?}"),
        }
    }

    fn wait(lanes: &mut Lanes<u32>, names: &[&str], work: u32) {
        match lanes.add(&keys(names)) {
            Added::Waits(behind) => lanes.wait(behind, work),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn commands_for_one_key_follow_each_other_and_others_do_not_wait() {
        let mut lanes = Lanes::default();
        let first = start(&mut lanes, &["a"]);
        wait(&mut lanes, &["a"], 2);
        let other = start(&mut lanes, &["b"]);
        let next = lanes.ended(first, &keys(&["a"]));
        assert_eq!(next.iter().map(|(_, work)| *work).collect::<Vec<_>>(), [2]);
        assert!(lanes.ended(other, &keys(&["b"])).is_empty());
        assert!(lanes.ended(next[0].0, &keys(&["a"])).is_empty());
        assert!(lanes.is_empty());
    }

    #[test]
    fn a_command_for_several_keys_waits_for_all_and_keeps_its_place_in_each() {
        let mut lanes = Lanes::default();
        let (a, b) = (start(&mut lanes, &["a"]), start(&mut lanes, &["b"]));
        wait(&mut lanes, &["a", "b", "c"], 3);
        // It waits behind that command, although no command works on this key yet.
        wait(&mut lanes, &["c"], 4);
        assert!(lanes.ended(b, &keys(&["b"])).is_empty());
        let several = lanes.ended(a, &keys(&["a"]));
        assert_eq!(several.iter().map(|(_, work)| *work).collect::<Vec<_>>(), [3]);
        let last = lanes.ended(several[0].0, &keys(&["a", "b", "c"]));
        assert_eq!(last.iter().map(|(_, work)| *work).collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn a_turn_is_given_up_once() {
        let mut lanes = Lanes::default();
        let first = start(&mut lanes, &["a"]);
        wait(&mut lanes, &["a"], 2);
        wait(&mut lanes, &["a"], 3);
        assert_eq!(lanes.ended(first, &keys(&["a"])).len(), 1);
        assert!(lanes.ended(first, &keys(&["a"])).is_empty(), "the second has its turn still");
    }

    #[test]
    fn after_the_end_no_command_gets_its_turn() {
        let mut lanes = Lanes::default();
        let first = start(&mut lanes, &["a"]);
        wait(&mut lanes, &["a"], 2);
        assert_eq!(lanes.end(), [2]);
        assert!(lanes.ended(first, &keys(&["a"])).is_empty());
        assert_eq!(lanes.add(&keys(&["a"])), Added::Ended);
        assert!(lanes.is_empty());
    }

    #[test]
    fn a_key_that_is_stuck_takes_no_more_than_so_many() {
        let mut lanes = Lanes::default();
        start(&mut lanes, &["a"]);
        for _ in 1..MOST_PER_KEY {
            wait(&mut lanes, &["a"], 1);
        }
        assert_eq!(lanes.add(&keys(&["a"])), Added::Full);
        assert_eq!(lanes.add(&keys(&["b", "a"])), Added::Full);
        start(&mut lanes, &["b"]);
    }
}
