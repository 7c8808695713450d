//! Tasks that request one key, some as readers, compared with a fair lock without a server.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::protocol::LockKind;

/// Tasks on one key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crowd {
    pub(super) readers: usize,
    pub(super) writers: usize,
    /// How often each task takes the lock.
    pub(super) sections: u32,
    /// How long a section lasts, and the pause after it.
    pub(super) body: u64,
    pub(super) pause: u64,
}

impl Crowd {
    pub(super) fn tasks(self) -> usize {
        self.readers + self.writers
    }

    /// The kind of lock that each task requests.
    pub(super) fn kinds(self) -> impl Iterator<Item = LockKind> {
        let readers = std::iter::repeat_n(LockKind::Shared, self.readers);
        readers.chain(std::iter::repeat_n(LockKind::Exclusive, self.writers))
    }
}

/// The tasks that are in a section.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Inside {
    readers: usize,
    writers: usize,
}

impl Inside {
    /// False if another task excludes it.
    pub(super) fn enters(&mut self, kind: LockKind) -> bool {
        let free = self.writers == 0 && (kind == LockKind::Shared || self.readers == 0);
        *(if kind == LockKind::Shared { &mut self.readers } else { &mut self.writers }) += 1;
        free
    }

    pub(super) fn leaves(&mut self, kind: LockKind) {
        *(if kind == LockKind::Shared { &mut self.readers } else { &mut self.writers }) -= 1;
    }

    fn has_room(mut self, kind: LockKind) -> bool {
        self.enters(kind)
    }
}

/// How long a crowd takes, and the longest time from asking to holding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) total: u64,
    pub(super) longest_wait: u64,
}

/// With a lock that grants in the order of the requests, takes no time, and is shared by readers.
pub(super) fn ideal(crowd: Crowd) -> Taken {
    let kinds: Vec<LockKind> = crowd.kinds().collect();
    let mut to_come = vec![crowd.sections; kinds.len()];
    let mut queue: VecDeque<(usize, u64)> = (0..kinds.len()).map(|task| (task, 0)).collect();
    // The next events: the time, and the task that asks or leaves.
    let mut asks: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut leaves: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let (mut now, mut inside) = (0, Inside::default());
    let mut taken = Taken { total: 0, longest_wait: 0 };
    loop {
        while let Some((task, asked)) = queue.front().copied()
            && inside.has_room(kinds[task])
        {
            queue.pop_front();
            inside.enters(kinds[task]);
            taken.longest_wait = taken.longest_wait.max(now - asked);
            leaves.push(Reverse((now + crowd.body, task)));
        }
        let due = [asks.peek(), leaves.peek()].into_iter().flatten().map(|Reverse((at, _))| *at).min();
        let Some(due) = due else { return taken };
        now = due;
        while let Some(Reverse((_, task))) = leaves.peek().copied().filter(|Reverse((at, _))| *at == now) {
            leaves.pop();
            inside.leaves(kinds[task]);
            taken.total = now;
            to_come[task] -= 1;
            if to_come[task] > 0 {
                asks.push(Reverse((now + crowd.pause, task)));
            }
        }
        while let Some(Reverse((_, task))) = asks.peek().copied().filter(|Reverse((at, _))| *at == now) {
            asks.pop();
            queue.push_back((task, now));
        }
    }
}
