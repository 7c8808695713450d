//! The waiters for a key in this process: first in, first out, each with its own time limits.
//!
//! Apart from the waiters that it completes, no event costs more than O(log n) for n waiters. A few waiters are
//! scanned. Many waiters have an index. Its entries for waiters that have left are dropped when a search finds them.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use super::earlier;
use crate::engine::{WaitLimit, Want};
use crate::lease_cell::Ticket;
use crate::protocol::Time;

/// With more waiters than this there is an index …
const INDEX_ABOVE: usize = 16;
/// … until so few are left.
const NO_INDEX_BELOW: usize = 8;

#[derive(Debug)]
pub(crate) struct Waiter<W> {
    pub(crate) ticket: Ticket,
    pub(crate) waiting_since: Time,
    pub(crate) want: Want,
    pub(crate) who: W,
}

impl<W> Waiter<W> {
    /// When its time limit for the lock is over.
    fn gives_up(&self) -> Option<Time> {
        if let WaitLimit::Until(until) = self.want.wait_limit { Some(until) } else { None }
    }

    /// When it gives up on a server that has not replied since `silent`.
    pub(crate) fn out_of_reach_at(&self, silent: Time) -> Time {
        silent.max(self.waiting_since).after(self.want.unavailable_after)
    }

    /// True if one of its time limits is over.
    fn is_overdue(&self, now: Time, silent: Option<Time>) -> bool {
        self.gives_up().is_some_and(|until| until <= now)
            || silent.is_some_and(|silent| self.out_of_reach_at(silent) <= now)
    }

    /// True if its limit for an unreachable server can end before its limit for the lock.
    fn depends_on_unavailable_after(&self) -> bool {
        self.gives_up().is_none_or(|until| until > self.waiting_since.after(self.want.unavailable_after))
    }
}

/// When the first waiter reaches its limit: for the lock, or for an unreachable server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitEnds {
    pub(crate) wait: Option<Time>,
    pub(crate) unavailable_after: Option<Time>,
}

impl WaitEnds {
    pub(crate) fn have_come(&self, now: Time) -> bool {
        [self.wait, self.unavailable_after].into_iter().flatten().any(|at| at <= now)
    }
}

/// A place in the queue; `None`: its waiter has left.
#[derive(Debug)]
struct WaiterSlot<W> {
    ticket: Ticket,
    waiter: Option<Waiter<W>>,
}

/// The local queue. Tickets increase from front to back.
#[derive(Debug)]
pub(crate) struct Waiters<W> {
    /// The first place is never empty.
    queue: VecDeque<WaiterSlot<W>>,
    len: usize,
    fenced: u32,
    once: usize,
    index: Option<Box<Index>>,
}

/// The buffer of a queue that is empty. Keys borrow it for an event: a key that is granted at once needs none of
/// its own, and a hundred thousand held keys without waiters do not keep one each.
#[derive(Debug)]
pub(crate) struct SpareQueue<W>(VecDeque<WaiterSlot<W>>);

impl<W> Default for SpareQueue<W> {
    fn default() -> Self {
        SpareQueue(VecDeque::new())
    }
}

impl<W> Default for Waiters<W> {
    fn default() -> Self {
        Waiters { queue: VecDeque::new(), len: 0, fenced: 0, once: 0, index: None }
    }
}

impl<W> Waiters<W> {
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn borrow_buffer(&mut self, spare: &mut SpareQueue<W>) {
        if self.queue.capacity() == 0 {
            std::mem::swap(&mut self.queue, &mut spare.0);
        }
    }

    /// Called after each event: an empty queue keeps no buffer.
    pub(crate) fn return_buffer(&mut self, spare: &mut SpareQueue<W>) {
        if self.queue.is_empty() {
            let buffer = std::mem::take(&mut self.queue);
            if spare.0.capacity() < buffer.capacity() && buffer.capacity() <= INDEX_ABOVE {
                spare.0 = buffer;
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn front(&self) -> Option<&Waiter<W>> {
        self.queue.front()?.waiter.as_ref()
    }

    /// How many waiters want a fencing token.
    pub(crate) fn fenced(&self) -> u32 {
        self.fenced
    }

    /// True if a waiter would queue on the server.
    pub(crate) fn any_patient(&self) -> bool {
        self.once < self.len
    }

    /// True if a waiter wants an answer at once.
    pub(crate) fn any_impatient(&self) -> bool {
        self.once > 0
    }

    /// No waiter reaches a limit before this. The server has not replied since `silent`.
    pub(crate) fn ends(&self, silent: Option<Time>) -> WaitEnds {
        if let Some(index) = &self.index {
            return index.ends(silent);
        }
        let mut ends = WaitEnds::default();
        for waiter in self.each() {
            ends.wait = earlier(ends.wait, waiter.gives_up());
            ends.unavailable_after =
                earlier(ends.unavailable_after, silent.map(|silent| waiter.out_of_reach_at(silent)));
        }
        ends
    }

    pub(crate) fn push(&mut self, waiter: Waiter<W>) {
        self.fenced += u32::from(waiter.want.fenced);
        self.once += usize::from(waiter.want.wait_limit == WaitLimit::Once);
        self.len += 1;
        if let Some(index) = &mut self.index {
            index.add(&waiter);
        }
        let is_first = waiter.want.replaces.is_some();
        let slot = WaiterSlot { ticket: waiter.ticket, waiter: Some(waiter) };
        if is_first {
            self.queue.push_front(slot)
        } else {
            self.queue.push_back(slot)
        }
        if self.index.is_none() && self.len > INDEX_ABOVE {
            self.index = Some(Box::new(Index::of(self.each())));
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Waiter<W>> {
        let waiter = self.queue.front_mut()?.waiter.take()?;
        Some(self.gone(waiter))
    }

    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Waiter<W>> {
        let place = place_of(&self.queue, ticket)?;
        let waiter = self.queue.get_mut(place)?.waiter.take()?;
        Some(self.gone(waiter))
    }

    /// A waiter was taken out of its place.
    fn gone(&mut self, waiter: Waiter<W>) -> Waiter<W> {
        self.fenced -= u32::from(waiter.want.fenced);
        self.once -= usize::from(waiter.want.wait_limit == WaitLimit::Once);
        self.len -= 1;
        self.tidy();
        waiter
    }

    /// Takes out the waiters that have reached a limit, in order.
    pub(crate) fn take_overdue(&mut self, now: Time, silent: Option<Time>) -> Vec<Waiter<W>> {
        let overdue = match &mut self.index {
            Some(index) => index.take_overdue(now, silent, &self.queue),
            None => {
                let overdue = self.each().filter(|waiter| waiter.is_overdue(now, silent));
                overdue.map(|waiter| waiter.ticket).collect()
            }
        };
        self.take(overdue)
    }

    /// Takes out the waiters that want an answer at once, in order.
    pub(crate) fn take_impatient(&mut self) -> Vec<Waiter<W>> {
        if self.once == 0 {
            return Vec::new();
        }
        let impatient = match &mut self.index {
            Some(index) => std::mem::take(&mut index.once).into(),
            None => {
                let impatient = self.each().filter(|waiter| waiter.want.wait_limit == WaitLimit::Once);
                impatient.map(|waiter| waiter.ticket).collect()
            }
        };
        self.take(impatient)
    }

    pub(crate) fn take_all(&mut self) -> Vec<Waiter<W>> {
        std::mem::take(self).queue.into_iter().filter_map(|place| place.waiter).collect()
    }

    /// Takes out the waiters for which `is_meant` is true, in order. It looks at all of them, so it suits an event
    /// after which the others are not looked at again for the same reason.
    pub(crate) fn take_if(&mut self, is_meant: impl Fn(&Want) -> bool) -> Vec<Waiter<W>> {
        let meant = self.each().filter(|waiter| is_meant(&waiter.want));
        let meant = meant.map(|waiter| waiter.ticket).collect();
        self.take(meant)
    }

    fn take(&mut self, tickets: Vec<Ticket>) -> Vec<Waiter<W>> {
        tickets.into_iter().filter_map(|ticket| self.remove(ticket)).collect()
    }

    fn each(&self) -> impl Iterator<Item = &Waiter<W>> {
        self.queue.iter().filter_map(|place| {
            count_a_look();
            place.waiter.as_ref()
        })
    }

    /// Called after a waiter has left. Work on the whole queue is done only after enough have left that its
    /// cost, shared among them, is constant.
    fn tidy(&mut self) {
        while self.queue.front().is_some_and(|place| place.waiter.is_none()) {
            count_a_look();
            self.queue.pop_front();
        }
        if self.queue.is_empty() {
            let queue = std::mem::take(&mut self.queue);
            *self = Waiters { queue, ..Waiters::default() };
            return;
        }
        if self.queue.len() > 2 * self.len + INDEX_ABOVE {
            self.queue.retain(|place| {
                count_a_look();
                place.waiter.is_some()
            });
        }
        if self.queue.capacity() > 8 * self.queue.len() + INDEX_ABOVE {
            self.queue.shrink_to(2 * self.queue.len());
        }
        if self.len < NO_INDEX_BELOW {
            self.index = None;
        } else if self.index.as_ref().is_some_and(|index| index.size() > 4 * self.len + INDEX_ABOVE) {
            self.index = Some(Box::new(Index::of(self.each())));
        }
    }
}

/// The index of the place with this ticket, unless its waiter has left.
fn place_of<W>(queue: &VecDeque<WaiterSlot<W>>, ticket: Ticket) -> Option<usize> {
    let place = queue.binary_search_by(|place| {
        count_a_look();
        place.ticket.cmp(&ticket)
    });
    place.ok().filter(|place| queue[*place].waiter.is_some())
}

/// The waiters ordered by their time limits. Some of those named may have left.
#[derive(Debug, Default)]
struct Index {
    gives_up: BinaryHeap<GivesUp>,
    /// For each `unavailable_after` in use (there are few): its waiters, by the start of their wait.
    unavailable_after: Vec<(Duration, VecDeque<(Time, Ticket)>)>,
    once: VecDeque<Ticket>,
}

impl Index {
    fn of<'a, W: 'a>(waiters: impl Iterator<Item = &'a Waiter<W>>) -> Index {
        let mut index = Index::default();
        waiters.for_each(|waiter| index.add(waiter));
        index
    }

    fn add<W>(&mut self, waiter: &Waiter<W>) {
        let ticket = waiter.ticket;
        self.gives_up.extend(waiter.gives_up().map(|at| GivesUp { at, ticket }));
        if waiter.want.wait_limit == WaitLimit::Once {
            self.once.push_back(ticket);
        }
        if !waiter.depends_on_unavailable_after() {
            return;
        }
        let unavailable_after = waiter.want.unavailable_after;
        match self.unavailable_after.iter_mut().find(|(found, _)| *found == unavailable_after) {
            Some((_, class)) => class.push_back((waiter.waiting_since, ticket)),
            None => self
                .unavailable_after
                .push((unavailable_after, VecDeque::from([(waiter.waiting_since, ticket)]))),
        }
    }

    fn size(&self) -> usize {
        let unavailable_after: usize = self.unavailable_after.iter().map(|(_, class)| class.len()).sum();
        self.gives_up.len() + unavailable_after + self.once.len()
    }

    fn ends(&self, silent: Option<Time>) -> WaitEnds {
        let wait = self.gives_up.peek().map(|first| first.at);
        let Some(silent) = silent else { return WaitEnds { wait, unavailable_after: None } };
        let firsts = self.unavailable_after.iter().filter_map(|(unavailable_after, class)| {
            count_a_look();
            class.front().map(|(waiting_since, _)| silent.max(*waiting_since).after(*unavailable_after))
        });
        WaitEnds { wait, unavailable_after: firsts.min() }
    }

    /// The tickets of the waiters that have reached a limit, in order.
    fn take_overdue<W>(
        &mut self,
        now: Time,
        silent: Option<Time>,
        queue: &VecDeque<WaiterSlot<W>>,
    ) -> Vec<Ticket> {
        let waits = |ticket| place_of(queue, ticket).is_some();
        let mut overdue = Vec::new();
        while let Some(first) = self.gives_up.peek()
            && (first.at <= now || !waits(first.ticket))
        {
            overdue.extend(self.gives_up.pop().map(|first| first.ticket));
        }
        for (unavailable_after, class) in &mut self.unavailable_after {
            while let Some((waiting_since, ticket)) = class.front()
                && (silent.is_some_and(|silent| silent.max(*waiting_since).after(*unavailable_after) <= now)
                    || !waits(*ticket))
            {
                overdue.push(*ticket);
                class.pop_front();
            }
        }
        self.unavailable_after.retain(|(_, class)| !class.is_empty());
        overdue.sort_unstable();
        overdue.dedup();
        overdue
    }
}

/// Reversed order: the earliest is at the top of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GivesUp {
    at: Time,
    ticket: Ticket,
}

impl Ord for GivesUp {
    fn cmp(&self, other: &Self) -> Ordering {
        count_a_look();
        (other.at, other.ticket).cmp(&(self.at, self.ticket))
    }
}

impl PartialOrd for GivesUp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
thread_local! {
    static LOOKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Counts, for tests, how many waiters are looked at.
fn count_a_look() {
    #[cfg(test)]
    LOOKS.set(LOOKS.get() + 1);
}

/// How many waiters this thread has looked at so far.
#[cfg(test)]
pub(crate) fn looks() -> u64 {
    LOOKS.get()
}
