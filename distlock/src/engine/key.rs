//! One key in one process: who waits, and where this process stands with the server.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::attempt::Attempt;
use super::cell::Ticket;
use super::lease::Lease;
use super::pending::PendingReleases;
use super::shard::Env;
use super::{Effect, Outcome, Patience, Want};
use crate::backend::{Failure, Kind, OpError, Token, token_text};
use crate::clock::Time;

#[derive(Debug)]
pub(super) struct KeyState<W> {
    pub(super) waiters: Waiters<W>,
    /// Asked for the lock, or queued for it, on behalf of the first waiter.
    pub(super) attempt: Option<Box<Attempt>>,
    /// What this process has on the server. An exclusive lease is the only one.
    pub(super) leases: Vec<Lease>,
    /// Numbers the `enter`s of this key, in the order in which they are sent.
    pub(super) seq: u64,
    /// What the shard's timers hold for this key; the key may be due later, never earlier.
    pub(super) timer: Option<Time>,
    /// Since when plain pollers have had no gap, as far as this process knows.
    pub(super) occupied: Option<Time>,
}

impl<W> Default for KeyState<W> {
    fn default() -> Self {
        KeyState {
            waiters: Waiters::default(),
            attempt: None,
            leases: Vec::new(),
            seq: 0,
            timer: None,
            occupied: None,
        }
    }
}

impl<W> KeyState<W> {
    pub(super) fn is_idle(&self) -> bool {
        self.attempt.is_none() && self.leases.is_empty() && self.waiters.is_empty()
    }

    pub(super) fn lease(&mut self, token: Token) -> Option<&mut Lease> {
        self.leases.iter_mut().find(|lease| lease.ready.token == token)
    }

    pub(super) fn take_lease(&mut self, token: Token) -> Option<Lease> {
        let index = self.leases.iter().position(|lease| lease.ready.token == token)?;
        Some(self.leases.swap_remove(index))
    }

    /// A kind in use here that does not go together with `kind`.
    fn clash(&self, kind: Kind) -> Option<Kind> {
        let held = self.leases.iter().map(|lease| lease.ready.kind);
        let attempted = self.attempt.iter().map(|attempt| attempt.kind);
        let awaited = self.waiters.front().map(|head| head.want.kind);
        let clashes = |other: &Kind| {
            let limited = matches!(other, Kind::Limited(_)) || matches!(kind, Kind::Limited(_));
            limited && *other != kind
        };
        held.chain(attempted).chain(awaited).find(clashes)
    }

    /// When the next thing happens by itself.
    pub(super) fn due(&self, link_is_down: bool) -> Time {
        let attempt = self.attempt.as_ref().map_or(Time::MAX, |attempt| attempt.due(link_is_down));
        let leases = self.leases.iter().map(|lease| lease.due(link_is_down)).min().unwrap_or(Time::MAX);
        attempt.min(leases).min(self.waiters.due)
    }
}

#[derive(Debug)]
pub(super) struct Waiter<W> {
    pub(super) ticket: Ticket,
    pub(super) since: Time,
    pub(super) want: Want,
    pub(super) who: W,
}

/// The local queue, first in, first out. Tickets increase from front to back.
#[derive(Debug)]
pub(super) struct Waiters<W> {
    queue: VecDeque<Waiter<W>>,
    /// No waiter's time is up before this; it may be later.
    pub(super) due: Time,
    fenced: u32,
    once: usize,
}

impl<W> Default for Waiters<W> {
    fn default() -> Self {
        Waiters { queue: VecDeque::new(), due: Time::MAX, fenced: 0, once: 0 }
    }
}

impl<W> Waiters<W> {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn front(&self) -> Option<&Waiter<W>> {
        self.queue.front()
    }

    /// How many of them want a fencing token.
    pub(super) fn fenced(&self) -> u32 {
        self.fenced
    }

    /// Whether one of them would stand in the queue on the server.
    pub(super) fn any_patient(&self) -> bool {
        self.once < self.queue.len()
    }

    /// Whether one of them wants an answer at once.
    pub(super) fn any_impatient(&self) -> bool {
        self.once > 0
    }

    pub(super) fn push(&mut self, waiter: Waiter<W>) {
        if let Patience::Until(until) = waiter.want.patience {
            self.due = self.due.min(until);
        }
        self.fenced += u32::from(waiter.want.fenced);
        self.once += usize::from(waiter.want.patience == Patience::Once);
        self.queue.push_back(waiter);
    }

    pub(super) fn pop(&mut self) -> Option<Waiter<W>> {
        let waiter = self.queue.pop_front()?;
        self.forget(&waiter);
        self.settle();
        Some(waiter)
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Waiter<W>> {
        let index = self.queue.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()?;
        let waiter = self.queue.remove(index)?;
        self.forget(&waiter);
        self.settle();
        Some(waiter)
    }

    /// The server is out of reach from `now` on: some may run out of time earlier than they would.
    pub(super) fn reach_is_counted_from(&mut self, now: Time) {
        for waiter in &self.queue {
            self.due = self.due.min(now.after(waiter.want.reach));
        }
    }

    /// Takes out all for whom `out` says so, in order.
    pub(super) fn extract(&mut self, mut out: impl FnMut(&Waiter<W>) -> bool) -> Vec<Waiter<W>> {
        let mut taken = Vec::new();
        for waiter in std::mem::take(&mut self.queue) {
            if out(&waiter) {
                self.forget(&waiter);
                taken.push(waiter);
            } else {
                self.queue.push_back(waiter);
            }
        }
        self.settle();
        taken
    }

    fn forget(&mut self, waiter: &Waiter<W>) {
        self.fenced -= u32::from(waiter.want.fenced);
        self.once -= usize::from(waiter.want.patience == Patience::Once);
    }

    fn settle(&mut self) {
        if self.queue.is_empty() {
            // Its buffer too: a hundred thousand keys may be held that nobody waits for.
            self.queue = VecDeque::new();
            self.due = Time::MAX;
        }
    }
}

/// One event on one key.
pub(super) struct Step<'a, W> {
    pub(super) now: Time,
    pub(super) key: &'a Arc<str>,
    pub(super) state: &'a mut KeyState<W>,
    pub(super) env: &'a mut Env,
    pub(super) pending: &'a mut PendingReleases,
    pub(super) out: &'a mut Vec<Effect<W>>,
}

impl<W> Step<'_, W> {
    pub(super) fn acquire(&mut self, want: Want, who: W) -> Ticket {
        let ticket = self.env.next_ticket();
        if self.env.closed {
            self.out.push(Effect::Done(who, Outcome::Closed));
            return ticket;
        }
        if let Some(other) = self.state.clash(want.kind) {
            let found = other.to_string().into();
            self.out.push(Effect::Done(who, Outcome::WrongKind { found }));
            return ticket;
        }
        if want.patience == Patience::Once
            && let Some(holder) = self.known_holder()
        {
            let busy = Outcome::Busy { holder: Some(holder), waited: Duration::ZERO };
            self.out.push(Effect::Done(who, busy));
            return ticket;
        }
        self.state.waiters.push(Waiter { ticket, since: self.now, want, who });
        if self.state.attempt.as_ref().is_some_and(|attempt| attempt.silent.is_some()) {
            self.state.waiters.reach_is_counted_from(self.now);
        }
        self.serve_here();
        ticket
    }

    /// Who certainly keeps a newcomer out.
    fn known_holder(&self) -> Option<Arc<str>> {
        let exclusive = self.state.leases.iter().find(|lease| lease.ready.kind == Kind::Exclusive);
        if let Some(lease) = exclusive {
            return Some(self.own_text(lease.ready.token));
        }
        let attempt = self.state.attempt.as_ref().filter(|attempt| attempt.silent.is_none())?;
        attempt.holder.clone()
    }

    pub(super) fn cancel(&mut self, ticket: Ticket) {
        if self.state.waiters.remove(ticket).is_some() {
            self.serve_here();
        }
    }

    /// Waiters whose time is up, and those who have been out of the server's reach for too long.
    pub(super) fn expire_waiters(&mut self) {
        if self.now < self.state.waiters.due {
            return;
        }
        let now = self.now;
        let held_here = self.state.leases.first().map(|lease| self.own_text(lease.ready.token));
        let link_is_down = self.env.link.is_down();
        let (silent, holder, cause) = match &self.state.attempt {
            Some(attempt) => (attempt.silent, attempt.holder.clone().or(held_here), attempt.cause.clone()),
            None => (None, held_here, None),
        };
        // The server has said nothing as long as this waiter has waited, or is known to be out of reach.
        let unheard = |waiter: &Waiter<W>| {
            silent.is_some_and(|silent| link_is_down || (holder.is_none() && silent <= waiter.since))
        };
        let late =
            |waiter: &Waiter<W>| matches!(waiter.want.patience, Patience::Until(until) if until <= now);
        let out_of_reach = |waiter: &Waiter<W>| {
            silent.is_some_and(|silent| silent.max(waiter.since).after(waiter.want.reach) <= now)
        };
        for waiter in self.state.waiters.extract(|waiter| late(waiter) || out_of_reach(waiter)) {
            let unavailable = unheard(&waiter) || out_of_reach(&waiter);
            let outcome = if unavailable && !mutated!(BusyForUnavailable) {
                Outcome::Unavailable(cause.clone().unwrap_or_else(no_answer))
            } else {
                Outcome::Busy { holder: holder.clone(), waited: now.since(waiter.since) }
            };
            self.out.push(Effect::Done(waiter.who, outcome));
        }
        self.state.waiters.due = Time::MAX;
        for waiter in &self.state.waiters.queue {
            if let Patience::Until(until) = waiter.want.patience {
                self.state.waiters.due = self.state.waiters.due.min(until);
            }
            if let Some(silent) = silent {
                let end = silent.max(waiter.since).after(waiter.want.reach);
                self.state.waiters.due = self.state.waiters.due.min(end);
            }
        }
        self.serve_here();
    }

    /// Everybody who waits gets the same answer.
    pub(super) fn dismiss_all(&mut self, outcome: &Outcome) {
        for waiter in self.state.waiters.extract(|_| true) {
            self.out.push(Effect::Done(waiter.who, outcome.clone()));
        }
    }

    /// Those who do not wait learn that the lock is busy.
    pub(super) fn dismiss_impatient(&mut self, holder: &Arc<str>) {
        if !self.state.waiters.any_impatient() || mutated!(ImpatientNotDismissed) {
            return;
        }
        for waiter in self.state.waiters.extract(|waiter| waiter.want.patience == Patience::Once) {
            let waited = self.now.since(waiter.since);
            let busy = Outcome::Busy { holder: Some(holder.clone()), waited };
            self.out.push(Effect::Done(waiter.who, busy));
        }
    }

    pub(super) fn own_text(&self, token: Token) -> Arc<str> {
        token_text(&self.env.client, token).into()
    }
}

fn no_answer() -> OpError {
    OpError::new(Failure::Unknown, "the server did not answer in time")
}
