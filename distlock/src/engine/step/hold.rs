//! Passes a lease of this process to a waiter.

use std::sync::Arc;
use std::time::Duration;

use super::Step;
use crate::engine::rules;
use crate::engine::state::{Door, Few, Grant, Holder, Lease, Waiter};
use crate::engine::{Effect, LONGEST_CLAIM, Outcome, Renewal, Want};
use crate::lease_cell::{HoldInfo, How, LeaseCell};
use crate::protocol::{LockKind, Time, Token, lease_end};

/// If a hold without renewal begins with less than its ttl, by more than this part of it, its lease is
/// extended once.
const SHORT_OF_ITS_TTL: u32 = 20;

impl<W> Step<'_, W> {
    /// Gives a lease to the first waiter. `covered` is the ttl that was requested from the server on behalf
    /// of that waiter; zero for a lease that was granted or handed on.
    pub(super) fn start(&mut self, grant: Grant, covered: Duration) {
        let Some(head) = self.state.waiters.front() else {
            self.give_back(&grant, None);
            return;
        };
        if head.want.kind != grant.kind {
            self.give_back(&grant, None);
            self.serve_here();
            return;
        }
        let long_enough = covered >= head.want.ttl || lasts(&grant, head, self.now);
        match (long_enough && grant.has_fence_for(head)).then(|| self.state.waiters.pop()).flatten() {
            Some(waiter) => self.begin(grant, waiter),
            // An attempt with another token is in progress: this grant is released, to the front of the queue.
            None if self.state.attempt.is_some() && rules::attempts_are_kept() => {
                self.give_back(&grant, None)
            }
            None => self.ask_for_more(grant),
        }
    }

    fn begin(&mut self, mut grant: Grant, waiter: Waiter<W>) {
        let fence = grant.fence_for(&waiter);
        let (token, kind, how) = (grant.token, grant.kind, grant.how);
        grant.is_former = true;
        let lease = Lease {
            grant,
            holders: Few::None,
            min_until: None,
            renew_at: None,
            lingers_until: None,
            door: Door::Open,
            last_renewal: false,
        };
        self.state.leases.push(lease);
        self.take_hold(token, waiter, fence, how);
        if kind == LockKind::Exclusive {
            self.dismiss_impatient_behind_holder();
        } else {
            self.serve_here();
        }
    }

    /// Passes an exclusive lease that no request of this process holds to the first waiter, if it may be passed on and
    /// is sufficient for that waiter. The result is the same as that of [`Step::start`], but the lease is not moved in
    /// memory: on a key that many tasks want, moving it takes a large part of the time.
    pub(super) fn hand_on(&mut self, token: Token) -> bool {
        let now = self.now;
        let Some(head) = self.state.waiters.front() else { return false };
        let Some(lease) = self.state.leases.iter_mut().find(|lease| lease.grant.token == token) else {
            return false;
        };
        let kinds = [head.want.kind, lease.grant.kind];
        let is_sufficient = kinds == [LockKind::Exclusive; 2]
            && rules::takes_former_leases(&head.want)
            && lasts(&lease.grant, head, now)
            && lease.grant.has_fence_for(head);
        if !is_sufficient || !lease.may_be_passed_on(now) || self.env.refusal.is_some() {
            return false;
        }
        let Some(waiter) = self.state.waiters.pop() else { return false };
        let fence = lease.grant.fence_for(&waiter);
        (lease.grant.how, lease.min_until, lease.renew_at) = (How::HandedOn, None, None);
        self.take_hold(token, waiter, fence, How::HandedOn);
        self.dismiss_impatient_behind_holder();
        true
    }

    /// An exclusive lease has a holder: requests that do not wait learn of it.
    fn dismiss_impatient_behind_holder(&mut self) {
        if self.state.waiters.any_impatient()
            && let Some(holder) = self.held_here()
        {
            self.dismiss_all_impatient(&holder);
        }
    }

    fn take_hold(&mut self, token: Token, waiter: Waiter<W>, fence: Option<u64>, how: How) {
        let now = self.now;
        let (key, session) = (self.key.clone(), self.env.session().cloned());
        let Some(lease) = self.state.lease(token) else { return };
        let Waiter { ticket, want, who, .. } = waiter;
        let cap = rules::max_hold(&want).map(|hold| now.after(hold));
        let until = match want.renewal {
            Renewal::Never if rules::ends_with_its_own_ttl() => {
                lease.grant.deadline.min(lease_end(now, want.ttl))
            }
            Renewal::Keep | Renewal::Never => lease.grant.deadline,
        };
        let collection = want.collection;
        if let Some(collection) = &collection {
            collection.acquired();
        }
        let hold = HoldInfo {
            key,
            label: want.label,
            ticket,
            token,
            kind: want.kind,
            how,
            fence,
            held_since: now,
            collection,
            session,
        };
        let cell = Arc::new(LeaseCell::new(hold, until, cap));
        let Want { ttl, renewal, linger, .. } = want;
        let mut holder = Holder { cell: cell.clone(), ttl, renewal, linger, until: cell.capped(until) };
        if renewal == Renewal::Keep {
            holder.until = holder.may_rely_until(until);
            cell.shorten(now, holder.until);
        }
        lease.holders.push(holder);
        lease.min_until = lease.min_until.max(want.min_hold.map(|hold| now.after(hold)));
        lease.replan_renewal(now);
        self.out.push(Effect::Done(who, Outcome::Acquired(cell)));
    }

    /// The guard that the hold belongs to exists now: `max_hold`, `min_hold` and renewal count from here.
    pub(crate) fn begin_hold(&mut self, cell: &LeaseCell, want: &Want) {
        let (now, token, ticket) = (self.now, cell.token, cell.ticket);
        let Some(lease) = self.state.lease(token) else { return };
        lease.min_until = lease.min_until.max(want.min_hold.map(|hold| now.after(hold)));
        let Some(holder) = lease.holder(ticket) else { return };
        holder.renewal = want.renewal;
        if let Some(max_hold) = rules::max_hold(want) {
            cell.limit(now, now.after(max_hold));
        }
        holder.until = cell.capped(holder.until);
        let mut falls_short = false;
        if want.renewal == Renewal::Never {
            let end = lease_end(now, want.ttl);
            holder.until = holder.until.min(end);
            cell.shorten(now, end);
            falls_short = holder.until.after(want.ttl / SHORT_OF_ITS_TTL) < cell.capped(end);
        }
        lease.replan_renewal(now);
        if falls_short {
            self.extend(cell, want.ttl);
        }
    }

    /// Lets waiting readers share a lease that readers of this process hold, for a short time after it was acquired.
    /// After that time a writer may be waiting. If the key was found busy a moment ago, a writer of another process
    /// probably waits: then the time is even shorter, and ends when the first reader leaves. If a writer is known to
    /// wait, no reader joins.
    pub(super) fn join_readers(&mut self) {
        let now = self.now;
        let first = self.state.waiters.front().filter(|head| head.want.kind == LockKind::Shared);
        let contended = first.is_some() && self.env.hints.is_contended(self.key, now);
        while let Some(head) = self.state.waiters.front()
            && head.want.kind == LockKind::Shared
        {
            let joinable = self.state.leases.iter().find(|lease| {
                lease.grant.kind == LockKind::Shared
                    && rules::readers_may_join_at(lease.door)
                    && (!contended
                        || rules::readers_may_join_though_contended(lease.grant.entered, lease.door, now))
                    && lease.may_be_passed_on(now)
                    && lasts(&lease.grant, head, now)
            });
            let Some(token) = joinable.map(|lease| lease.grant.token) else { return };
            let Some(waiter) = self.state.waiters.pop() else { return };
            self.take_hold(token, waiter, None, How::Joined);
        }
    }
}

/// Whether a lease that was not requested on behalf of this waiter lasts long enough for it: there is time to
/// renew it, or it need not be renewed.
fn lasts<W>(grant: &Grant, head: &Waiter<W>, now: Time) -> bool {
    if !rules::leases_handed_on_must_last() {
        return true;
    }
    match head.want.renewal {
        Renewal::Keep => grant.deadline.duration_since(now) >= LONGEST_CLAIM.min(head.want.ttl) / 2,
        Renewal::Never => grant.deadline >= lease_end(now, head.want.ttl),
    }
}
