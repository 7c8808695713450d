//! One key in one process: who waits, and where this process stands with the server.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::Attempt;
use super::lease::Lease;
use super::machine::Env;
use super::pending::PendingReleases;
use super::waiters::{Waiter, Waiters};
use super::{Effect, Outcome, WaitLimit, Want};
use crate::lease_cell::Ticket;
use crate::protocol::{Failure, Kind, OpError, Time, Token, mutated, token_text};

#[derive(Debug)]
pub(super) struct KeyState<W> {
    pub(super) waiters: Waiters<W>,
    /// Asked for the lock, or queued for it, on behalf of the first waiter.
    pub(super) attempt: Option<Box<Attempt>>,
    /// What this process has on the server. An exclusive lease is the only one.
    pub(super) leases: Vec<Lease>,
    /// Leases that were lost but are not given back before their bodies have ended, and until when `min_hold` keeps
    /// the key.
    pub(super) kept: Vec<(Token, Time)>,
    /// Numbers the `enter`s of this key, in the order in which they are sent.
    pub(super) seq: u64,
    /// What the shard's timers hold for this key; the key may be due later, never earlier.
    pub(super) timer: Option<Time>,
    /// Since when plain pollers have had no gap, as far as this process knows.
    pub(super) no_gap_since: Option<Time>,
}

impl<W> Default for KeyState<W> {
    fn default() -> Self {
        KeyState {
            waiters: Waiters::default(),
            attempt: None,
            leases: Vec::new(),
            kept: Vec::new(),
            seq: 0,
            timer: None,
            no_gap_since: None,
        }
    }
}

impl<W> KeyState<W> {
    pub(super) fn is_idle(&self) -> bool {
        self.attempt.is_none() && self.leases.is_empty() && self.waiters.is_empty() && self.kept.is_empty()
    }

    pub(super) fn lease(&mut self, token: Token) -> Option<&mut Lease> {
        self.leases.iter_mut().find(|lease| lease.grant.token == token)
    }

    pub(super) fn take_lease(&mut self, token: Token) -> Option<Lease> {
        let index = self.leases.iter().position(|lease| lease.grant.token == token)?;
        Some(self.leases.swap_remove(index))
    }

    /// A kind in use here that does not go together with `kind`.
    fn clash(&self, kind: Kind) -> Option<Kind> {
        let held = self.leases.iter().map(|lease| lease.grant.kind);
        let attempted = self.attempt.iter().map(|attempt| attempt.kind);
        let awaited = self.waiters.front().map(|head| head.want.kind);
        let clashes = |other: &Kind| {
            let limited = matches!(other, Kind::Limited(_)) || matches!(kind, Kind::Limited(_));
            limited && *other != kind
        };
        held.chain(attempted).chain(awaited).find(clashes)
    }

    /// Since when the server has not answered.
    fn silent(&self) -> Option<Time> {
        self.attempt.as_ref().and_then(|attempt| attempt.silent)
    }

    /// When the next thing happens by itself.
    pub(super) fn due(&self, link_is_down: bool) -> Time {
        let attempt = self.attempt.as_ref().map_or(Time::MAX, |attempt| attempt.due(link_is_down));
        let leases = self.leases.iter().map(|lease| lease.due(link_is_down)).min().unwrap_or(Time::MAX);
        attempt.min(leases).min(self.waiters.due(self.silent()))
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
        let newcomer = Waiter { ticket, waiting_since: self.now, want, who };
        match self.refusal(&newcomer.want) {
            Some(outcome) => self.complete(newcomer, outcome),
            None => {
                self.state.waiters.push(newcomer);
                self.serve_here();
            }
        }
        ticket
    }

    /// What a newcomer is told at once, if it need not wait.
    fn refusal(&self, want: &Want) -> Option<Outcome> {
        if let Some(refusal) = &self.env.refusal {
            return Some(refusal.clone());
        }
        if let Some(other) = self.state.clash(want.kind) {
            return Some(Outcome::WrongKind { found: other.to_string().into() });
        }
        if want.wait_limit == WaitLimit::Once
            && let Some(holder) = self.known_holder()
        {
            return Some(Outcome::Busy { holder: Some(holder), waited: Duration::ZERO });
        }
        if self.is_crowded(want) {
            let held_here = self.state.leases.first().map(|lease| self.own_text(lease.grant.token));
            let holder = self.state.attempt.as_ref().and_then(|attempt| attempt.holder.clone());
            return Some(Outcome::Busy { holder: holder.or(held_here), waited: Duration::ZERO });
        }
        None
    }

    /// A request that waits, or was about to, has ended.
    pub(super) fn complete(&mut self, waiter: Waiter<W>, outcome: Outcome) {
        if let Some(collection) = &waiter.want.collection {
            collection.answered();
        }
        self.out.push(Effect::Done(waiter.who, outcome));
    }

    /// As many wait here already as the newcomer accepts.
    fn is_crowded(&self, want: &Want) -> bool {
        let most = want.max_waiters.map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        let most = most.filter(|_| !mutated!(MaxWaitersIgnored));
        most.is_some_and(|most| self.state.waiters.len() >= most)
    }

    /// Who certainly keeps a newcomer out.
    fn known_holder(&self) -> Option<Arc<str>> {
        let exclusive = self.state.leases.iter().find(|lease| lease.grant.kind == Kind::Exclusive);
        if let Some(lease) = exclusive {
            return Some(self.own_text(lease.grant.token));
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
        let (now, silent) = (self.now, self.state.silent());
        if now < self.state.waiters.due(silent) {
            return;
        }
        let overdue = self.state.waiters.take_overdue(now, silent);
        let held_here = self.state.leases.first().map(|lease| self.own_text(lease.grant.token));
        let link_is_down = self.env.link.is_down();
        let (holder, cause) = match &self.state.attempt {
            Some(attempt) => (attempt.holder.clone().or(held_here), attempt.cause.clone()),
            None => (held_here, None),
        };
        for waiter in overdue {
            // The server has said nothing as long as this waiter has waited, or is known to be out of reach.
            let unavailable = silent.is_some_and(|silent| {
                link_is_down
                    || (holder.is_none() && silent <= waiter.waiting_since)
                    || waiter.out_of_reach_at(silent) <= now
            });
            let outcome = if unavailable && !mutated!(BusyForUnavailable) {
                Outcome::Unavailable(cause.clone().unwrap_or_else(no_answer))
            } else {
                Outcome::Busy { holder: holder.clone(), waited: now.duration_since(waiter.waiting_since) }
            };
            self.complete(waiter, outcome);
        }
        self.serve_here();
    }

    /// Everybody who waits gets the same answer.
    pub(super) fn dismiss_all(&mut self, outcome: &Outcome) {
        for waiter in self.state.waiters.take_all() {
            self.complete(waiter, outcome.clone());
        }
    }

    /// Those who do not wait learn that the lock is busy.
    pub(super) fn dismiss_impatient(&mut self, holder: &Arc<str>) {
        if !self.state.waiters.any_impatient() || mutated!(ImpatientNotDismissed) {
            return;
        }
        for waiter in self.state.waiters.take_impatient() {
            let waited = self.now.duration_since(waiter.waiting_since);
            let busy = Outcome::Busy { holder: Some(holder.clone()), waited };
            self.complete(waiter, busy);
        }
    }

    pub(super) fn own_text(&self, token: Token) -> Arc<str> {
        token_text(&self.env.client, token).into()
    }
}

fn no_answer() -> OpError {
    OpError::new(Failure::Unknown, "the server did not answer in time")
}
