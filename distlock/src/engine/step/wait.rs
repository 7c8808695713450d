//! The queue in this process: requests that arrive, and requests that end without the lock.

use std::time::Duration;

use super::Step;
use crate::engine::rules;
use crate::engine::state::{Attempt, Lease, Waiter};
use crate::engine::{KnownHolder, Outcome, WaitLimit, Want};
use crate::lease_cell::Ticket;
use crate::protocol::{Failure, LockKind, StoreError};

impl<W> Step<'_, W> {
    /// A request. It ends with one `Done`, unless it is cancelled before.
    pub(crate) fn acquire(&mut self, want: Want, who: W) -> Ticket {
        let ticket = self.env.next_ticket(&want);
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

    /// The outcome of a new request that must not wait.
    fn refusal(&self, want: &Want) -> Option<Outcome> {
        if let Some(refusal) = &self.env.refusal {
            return Some(refusal.clone());
        }
        if let Some(other) = self.state.clash(want.kind) {
            return Some(Outcome::WrongKind { found: other.to_string().into() });
        }
        if want.replaces.is_some() {
            return self.refusal_to_replace();
        }
        if want.wait_limit == WaitLimit::Once
            && let Some(holder) = self.known_holder()
        {
            return Some(Outcome::Busy { holder: Some(holder), waited: Duration::ZERO });
        }
        if self.is_crowded(want) {
            let holder = self.state.attempt.as_ref().and_then(|attempt| attempt.holder.clone());
            return Some(Outcome::Busy { holder: holder.or(self.held_here()), waited: Duration::ZERO });
        }
        None
    }

    /// A request that replaces a holder is the first of the waiters, so there can be only one.
    fn refusal_to_replace(&self) -> Option<Outcome> {
        if !self.state.leases.is_empty() {
            return Some(Outcome::NotReplaced);
        }
        let first = self.state.waiters.front();
        let is_replacing = first.is_some_and(|head| head.want.replaces.is_some());
        is_replacing.then_some(Outcome::Busy { holder: None, waited: Duration::ZERO })
    }

    /// Whether the most waiters that the new request accepts wait here already.
    fn is_crowded(&self, want: &Want) -> bool {
        let most = rules::max_waiters(want).map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        most.is_some_and(|most| self.state.waiters.len() >= most)
    }

    /// A holder that certainly excludes the new request.
    fn known_holder(&self) -> Option<KnownHolder> {
        let held = |lease: &&Lease| lease.grant.kind == LockKind::Exclusive && lease.is_held();
        let exclusive = self.state.leases.iter().find(held);
        if let Some(lease) = exclusive {
            return Some(self.own(lease));
        }
        let attempt = self.state.attempt.as_ref().filter(|attempt| attempt.silent.is_none())?;
        attempt.holder.clone()
    }

    /// A holder of this process.
    pub(super) fn held_here(&self) -> Option<KnownHolder> {
        self.state.leases.first().map(|lease| self.own(lease))
    }

    fn own(&self, lease: &Lease) -> KnownHolder {
        let until = lease.holders.iter().map(|holder| holder.until).min();
        KnownHolder { text: self.own_text(lease.grant.token), until: until.or(Some(lease.grant.deadline)) }
    }

    /// Cancels a request. No effect if it was completed. Returns the waiter, to be dropped outside of the mutex: it may
    /// be the last one that keeps the manager alive.
    pub(crate) fn cancel(&mut self, ticket: Ticket) -> Option<W> {
        let gone = self.state.waiters.remove(ticket)?;
        self.serve_here();
        Some(gone.who)
    }

    /// Ends waiters whose time limit is over: for the lock, or for an unreachable server.
    pub(in crate::engine) fn expire_waiters(&mut self) {
        let (now, silent) = (self.now, self.state.silent());
        if !self.state.waiters.ends(silent).have_come(now) {
            return;
        }
        let overdue = self.state.waiters.take_overdue(now, silent);
        let held_here = self.held_here();
        let link_is_down = self.env.link.is_down();
        let (holder, cause, replaced) = match &self.state.attempt {
            Some(attempt) => {
                (attempt.holder.clone().or(held_here), attempt.cause.clone(), attempt.may_have_replaced())
            }
            None => (held_here, None, false),
        };
        for waiter in overdue {
            // The server has not replied during the whole wait, or is known to be unreachable.
            let unreachable = silent.is_some_and(|silent| {
                let never_replied = holder.is_none()
                    && silent <= waiter.waiting_since
                    && !rules::has_had_a_reply(waiter.want.collection.as_deref());
                link_is_down || never_replied || waiter.out_of_reach_at(silent) <= now
            });
            let outcome = if unreachable && rules::silence_is_told_from_refusal() {
                unavailable(&waiter.want, replaced, cause.clone().unwrap_or_else(no_answer))
            } else {
                Outcome::Busy { holder: holder.clone(), waited: now.duration_since(waiter.waiting_since) }
            };
            self.complete(waiter, outcome);
        }
        self.serve_here();
    }

    /// Ends all waiting requests with the same outcome.
    pub(super) fn dismiss_all(&mut self, outcome: &Outcome) {
        let waiters = self.state.waiters.take_all();
        let replaced = self.state.attempt.as_deref().is_some_and(Attempt::may_have_replaced);
        self.complete_all(waiters, replaced, outcome);
    }

    /// Ends the waiting requests that the attempt served, or would serve next.
    pub(super) fn dismiss_served(&mut self, attempt: &Attempt, outcome: &Outcome) {
        let learns = |want: &Want| attempt.serves(want) || !rules::a_final_reply_ends_the_served_only();
        let served = self.state.waiters.take_if(learns);
        self.complete_all(served, attempt.may_have_replaced(), outcome);
    }

    /// Ends the requests that do not wait and that the attempt has found busy: those that it serves, and all behind one
    /// that waits. A reader may be admitted where a writer is not, but passes no writer that waits.
    pub(super) fn dismiss_impatient(&mut self, attempt: &Attempt, holder: &KnownHolder) {
        let is_served = |want: &Want| want.wait_limit == WaitLimit::Once && attempt.serves(want);
        if self.state.waiters.front().is_some_and(|head| is_served(&head.want))
            && rules::impatient_are_dismissed()
        {
            let served = self.state.waiters.take_if(is_served);
            self.complete_busy(served, holder);
        }
        if self.state.waiters.front().is_some_and(|head| attempt.serves(&head.want)) {
            self.dismiss_all_impatient(holder);
        }
    }

    /// Ends the requests that do not wait: the lock is busy for all of them.
    pub(super) fn dismiss_all_impatient(&mut self, holder: &KnownHolder) {
        if rules::impatient_are_dismissed() {
            let impatient = self.state.waiters.take_impatient();
            self.complete_busy(impatient, holder);
        }
    }

    fn complete_busy(&mut self, waiters: Vec<Waiter<W>>, holder: &KnownHolder) {
        for waiter in waiters {
            let waited = self.now.duration_since(waiter.waiting_since);
            self.complete(waiter, Outcome::Busy { holder: Some(holder.clone()), waited });
        }
    }

    /// Ends the requests that do not wait: the lock cannot be acquired now.
    pub(super) fn fail_impatient(&mut self, replaced: bool, error: &StoreError) {
        let impatient = self.state.waiters.take_impatient();
        self.complete_all(impatient, replaced, &Outcome::Unavailable(error.clone()));
    }

    /// `replaced`: the attempt may have replaced a holder.
    fn complete_all(&mut self, waiters: Vec<Waiter<W>>, replaced: bool, outcome: &Outcome) {
        for waiter in waiters {
            let outcome = match outcome {
                Outcome::Unavailable(error) => unavailable(&waiter.want, replaced, error.clone()),
                Outcome::Closed if uses_its_ticket(&waiter.want, replaced) => {
                    Outcome::Unconfirmed(StoreError::new(Failure::Refused, "the manager was shut down"))
                }
                other => other.clone(),
            };
            self.complete(waiter, outcome);
        }
    }
}

/// How a request ends without an answer. `replaced`: the attempt may have replaced a holder.
fn unavailable(want: &Want, replaced: bool, error: StoreError) -> Outcome {
    if uses_its_ticket(want, replaced) { Outcome::Unconfirmed(error) } else { Outcome::Unavailable(error) }
}

/// Whether a request that ends without an answer may have used its ticket.
fn uses_its_ticket(want: &Want, replaced: bool) -> bool {
    want.replaces.is_some() && replaced && rules::unanswered_take_overs_may_have_happened()
}

fn no_answer() -> StoreError {
    StoreError::new(Failure::Unknown, "the server did not answer in time")
}
