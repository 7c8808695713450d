//! Holding a lock: starting a hold on a lease, sharing it, handing it on, losing it.

use std::sync::Arc;
use std::time::Duration;

use super::key::Step;
use super::lease::{Grant, Holder, Lease};
use super::release::ReleaseRequest;
use super::waiters::Waiter;
use super::{Context, Effect, LONGEST_CLAIM, Outcome, Release, Renewal, Want};
use crate::error::LostReason;
use crate::lease_cell::{CellState, LeaseCell, Remains, Ticket};
use crate::protocol::{Kind, OpResult, Reply, ServerTime, Time, Token, lease_end, mutated};

/// A hold without renewal that lacks this part of its ttl when it begins is extended once.
const SHORT_OF_ITS_TTL: u32 = 20;

impl<W> Step<'_, W> {
    /// Time first: a deadline that has passed is a loss before anything else happens.
    pub(super) fn advance(&mut self) {
        let now = self.now;
        self.state.kept.retain(|(_, until)| now < *until);
        let is_over =
            |holder: &Holder| now >= holder.until || matches!(holder.cell.state(now), CellState::Lost(_));
        while let Some(cell) = self
            .state
            .leases
            .iter()
            .flat_map(|lease| &lease.holders)
            .find(|holder| is_over(holder))
            .map(|holder| holder.cell.clone())
        {
            self.lose(cell.token, cell.ticket, LostReason::Expired);
        }
    }

    /// Gives a lease to the first waiter. `covered` is the ttl that the server was asked for on behalf of
    /// the first waiter; zero for a lease that was granted or is handed on.
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
        let has_fence = !head.want.fenced || !grant.fences.is_empty();
        match (long_enough && has_fence).then(|| self.state.waiters.pop()).flatten() {
            Some(waiter) => self.begin(grant, waiter),
            // Somebody asks with another token already: this one goes back, to the front of the queue.
            None if self.state.attempt.is_some() && !mutated!(AttemptOverwritten) => {
                self.give_back(&grant, None)
            }
            None => self.ask_for_more(grant),
        }
    }

    fn begin(&mut self, mut grant: Grant, waiter: Waiter<W>) {
        let fence = if waiter.want.fenced { grant.fences.next() } else { None };
        let (token, kind) = (grant.token, grant.kind);
        let lease = Lease { grant, holders: Vec::with_capacity(1), min_until: None, renew_at: Time::MAX };
        self.state.leases.reserve_exact(1);
        self.state.leases.push(lease);
        self.take_hold(token, waiter, fence);
        if kind == Kind::Exclusive {
            if self.state.waiters.any_impatient() {
                let holder = self.own_text(token);
                self.dismiss_impatient(&holder);
            }
        } else {
            self.serve_here();
        }
    }

    fn take_hold(&mut self, token: Token, waiter: Waiter<W>, fence: Option<u64>) {
        let now = self.now;
        let key = self.key.clone();
        let Some(lease) = self.state.lease(token) else { return };
        let Waiter { ticket, want, who, .. } = waiter;
        let max_hold = want.max_hold.filter(|_| !mutated!(MaxHoldIgnored));
        let cap = max_hold.map_or(Time::MAX, |hold| now.after(hold));
        let until = match want.renewal {
            Renewal::Keep => lease.grant.deadline,
            Renewal::Never if mutated!(NoRenewTakesWholeLease) => lease.grant.deadline,
            Renewal::Never => lease.grant.deadline.min(lease_end(now, want.ttl)),
        };
        let collection = want.collection;
        if let Some(collection) = &collection {
            collection.answered();
        }
        let (label, held_since) = (want.label, now);
        let cell = LeaseCell::new(key, label, ticket, token, fence, held_since, cap, until, collection);
        let cell = Arc::new(cell);
        let until = until.min(cap);
        lease.holders.push(Holder { cell: cell.clone(), ttl: want.ttl, renewal: want.renewal, until });
        lease.min_until = lease.min_until.max(want.min_hold.map(|hold| now.after(hold)));
        lease.replan_renewal(now);
        self.out.push(Effect::Done(who, Outcome::Acquired(cell)));
    }

    /// The guard that the hold is a part of exists: what its holder said of time counts from now on.
    pub(super) fn begin_hold(&mut self, cell: &LeaseCell, want: &Want) {
        let (now, token, ticket) = (self.now, cell.token, cell.ticket);
        let Some(lease) = self.state.lease(token) else { return };
        lease.min_until = lease.min_until.max(want.min_hold.map(|hold| now.after(hold)));
        let Some(holder) = lease.holder(ticket) else { return };
        holder.renewal = want.renewal;
        if let Some(max_hold) = want.max_hold.filter(|_| !mutated!(MaxHoldIgnored)) {
            cell.limit(now, now.after(max_hold));
        }
        holder.until = holder.until.min(cell.cap());
        let mut falls_short = false;
        if want.renewal == Renewal::Never {
            let end = lease_end(now, want.ttl);
            holder.until = holder.until.min(end);
            cell.shorten(now, end);
            falls_short = holder.until.after(want.ttl / SHORT_OF_ITS_TTL) < end.min(cell.cap());
        }
        lease.replan_renewal(now);
        if falls_short {
            self.extend(cell, want.ttl);
        }
    }

    /// Lets readers in on a lease that readers of this process have, for a short while after it was entered:
    /// beyond that a writer may be waiting.
    pub(super) fn join_readers(&mut self) {
        let now = self.now;
        while let Some(head) = self.state.waiters.front()
            && head.want.kind == Kind::Shared
        {
            let joinable = self.state.leases.iter().find(|lease| {
                lease.grant.kind == Kind::Shared
                    && lease.may_be_passed_on(now)
                    && lasts(&lease.grant, head, now)
            });
            let Some(token) = joinable.map(|lease| lease.grant.token) else { return };
            let Some(waiter) = self.state.waiters.pop() else { return };
            self.take_hold(token, waiter, None);
        }
    }

    /// The holder lets go, or is gone.
    pub(super) fn release(&mut self, cell: &LeaseCell) -> Release {
        let current = self.state.lease(cell.token).is_some_and(|lease| lease.holder(cell.ticket).is_some());
        match (cell.release(self.now), current) {
            (Ok(()), true) => {
                self.forget_min_hold(cell);
                self.let_go(cell.token, cell.ticket)
            }
            (Ok(()), false) => Release::HandedOn,
            (Err(reason), true) => {
                self.lose(cell.token, cell.ticket, reason);
                self.leave_lost(cell, reason)
            }
            (Err(reason), false) => self.leave_lost(cell, reason),
        }
    }

    /// Nobody has had it in hand: no body has run that `min_hold` would be for.
    fn forget_min_hold(&mut self, cell: &LeaseCell) {
        if let Some(lease) = self.state.lease(cell.token)
            && lease.grant.kind != Kind::Shared
            && cell.give_up()
        {
            lease.min_until = None;
        }
    }

    /// A lost lease is left once its body has ended: it may be ours on the server still.
    fn leave_lost(&mut self, cell: &LeaseCell, reason: LostReason) -> Release {
        let others_hold_it = self.state.lease(cell.token).is_some();
        let remains = cell.remains();
        self.state.kept.retain(|(token, _)| *token != cell.token);
        let given_back = remains.is_some_and(|remains| remains.given_back);
        if reason != LostReason::Taken && !others_hold_it && !given_back && !mutated!(LostLeaseNotReleased) {
            let keep_until = remains.and_then(|remains| remains.keep_until);
            let longest = remains.map_or(LONGEST_CLAIM, |remains| remains.longest);
            self.compensate_and_keep(cell.token, longest, keep_until.filter(|until| *until > self.now));
        }
        Release::WasLost(reason)
    }

    fn let_go(&mut self, token: Token, ticket: Ticket) -> Release {
        let now = self.now;
        let Some(lease) = self.state.lease(token) else { return Release::HandedOn };
        lease.remove(ticket);
        if !lease.holders.is_empty() {
            lease.replan_renewal(now);
            return Release::HandedOn;
        }
        let Some(lease) = self.state.take_lease(token) else { return Release::HandedOn };
        let keep_until = lease.min_until.filter(|until| *until > now);
        let passed_on = keep_until.is_none()
            && lease.grant.kind != Kind::Shared
            && lease.may_be_passed_on(now)
            && self.env.refusal.is_none()
            && self.state.waiters.front().is_some_and(|head| head.want.kind == lease.grant.kind);
        if passed_on {
            self.start(lease.grant, Duration::ZERO);
            self.serve_here();
            return Release::HandedOn;
        }
        self.give_back(&lease.grant, keep_until);
        if mutated!(HandOnAfterRelease) && !self.state.waiters.is_empty() {
            self.start(lease.grant, Duration::ZERO);
            return Release::Sent;
        }
        if lease.grant.kind == Kind::Exclusive && !self.state.waiters.is_empty() {
            let gap = self.take_gap(&lease.grant);
            self.next_attempt(gap);
        } else {
            self.serve_here();
        }
        Release::Sent
    }

    /// A gap for plain pollers, when one is due.
    fn take_gap(&mut self, grant: &Grant) -> Option<Duration> {
        let no_gap_since = self.state.no_gap_since?;
        // By the server's clock where it is known, so that every process finds the same gaps.
        let micros = |time: Time| time.0 / 1000;
        let ahead =
            grant.server_time.map_or(0, |server_time| server_time.0.saturating_sub(micros(grant.entered)));
        let by_server = |time: Time| micros(time).saturating_add(ahead);
        if !self.env.tuning.poll_gap_is_due(by_server(no_gap_since), by_server(self.now)) {
            return None;
        }
        self.state.no_gap_since = None;
        Some(self.env.tuning.poll_gap)
    }

    /// A hold is over without having been released.
    pub(super) fn lose(&mut self, token: Token, ticket: Ticket, reason: LostReason) {
        let now = self.now;
        let Some(lease) = self.state.lease(token) else { return };
        let Some(holder) = lease.remove(ticket) else { return };
        let reason = holder.cell.lose(now, reason);
        let unclaimed = holder.cell.give_up();
        if !unclaimed {
            self.out.push(Effect::Lost(holder.cell.clone(), reason));
        }
        if !lease.holders.is_empty() {
            lease.replan_renewal(now);
            return;
        }
        let Some(mut lease) = self.state.take_lease(token) else { return };
        if mutated!(HandOnAfterLoss) && !self.state.waiters.is_empty() {
            lease.grant.deadline = now.after(holder.ttl);
            self.start(lease.grant, holder.ttl);
            return;
        }
        if unclaimed && reason != LostReason::Taken {
            // No body runs that would have to end first.
            let longest = lease.grant.longest;
            holder.cell.leave_behind(Remains { keep_until: None, given_back: true, longest });
            self.give_back(&lease.grant, lease.min_until.filter(|_| lease.grant.kind == Kind::Shared));
        } else {
            self.remember_min_hold(&holder.cell, &lease, reason);
        }
        if mutated!(NoServeAfterLoss) {
            return;
        }
        self.serve_here();
    }

    /// `min_hold` counts although the hold was lost, unless the key was taken away. The key is kept once the
    /// body has ended, which the lease covers until then; at once if the lease may end before `min_hold` does,
    /// and if readers shared it: one of those whose bodies still run may have asked for it.
    fn remember_min_hold(&mut self, cell: &LeaseCell, lease: &Lease, reason: LostReason) {
        let now = self.now;
        let keep_until = lease.min_until.filter(|until| *until > now && reason != LostReason::Taken);
        let keep_until = keep_until.filter(|_| !mutated!(MinHoldDroppedAtLoss));
        let grant = &lease.grant;
        let given_back =
            keep_until.is_some_and(|until| grant.kind == Kind::Shared || until >= grant.deadline);
        if given_back {
            self.give_back(grant, keep_until);
        } else if let Some(until) = keep_until {
            self.state.kept.push((grant.token, until));
        }
        cell.leave_behind(Remains { keep_until, given_back, longest: grant.longest });
    }

    /// The lease itself is over: everybody who holds it has lost it.
    pub(super) fn lose_lease(&mut self, token: Token, reason: LostReason) {
        while let Some(ticket) =
            self.state.lease(token).and_then(|lease| lease.holders.first()).map(|holder| holder.cell.ticket)
        {
            self.lose(token, ticket, reason);
        }
    }

    pub(super) fn lose_all(&mut self, reason: LostReason) {
        while let Some(token) = self.state.leases.first().map(|lease| lease.grant.token) {
            self.lose_lease(token, reason);
        }
    }

    /// The answer to an `enter` whose token is that of a lease.
    pub(super) fn on_acquire_reply_while_held(
        &mut self,
        context: &Context,
        seq: u64,
        ttl: Duration,
        result: &OpResult,
    ) {
        let token = context.token;
        let Some(lease) = self.state.lease(token) else { return };
        if seq < lease.grant.seen && !mutated!(StaleReplyBelieved) {
            return;
        }
        lease.grant.seen = lease.grant.seen.max(seq);
        match result {
            // Carried out before what we know already: threads may send in another order than they asked.
            Ok(Reply::Acquired { server_time: Some(server_time), .. })
                if lease.grant.server_time.is_some_and(|known| *server_time <= known) => {}
            Ok(Reply::Acquired { .. }) if !mutated!(AcquiredWhileHeldTakenAsAlreadyHeld) => {
                // The lock was lost in between, and this command took it anew.
                let (keep_until, longest) = (lease.min_until, lease.grant.longest);
                self.lose_lease(token, LostReason::Expired);
                self.compensate_and_keep(token, longest, keep_until.filter(|until| *until > self.now));
            }
            Ok(Reply::AlreadyHeld { .. } | Reply::Acquired { .. }) => {
                self.extended(token, lease_end(context.sent, ttl));
            }
            _ => {}
        }
    }

    /// A push for a token that this process does not wait with: whatever it stands for is given back.
    pub(super) fn on_unknown_grant(&mut self, token: Token) {
        if !mutated!(UnknownPushIgnored) {
            self.compensate(token, LONGEST_CLAIM);
        }
    }

    /// Gives a lease back that nobody holds.
    fn give_back(&mut self, grant: &Grant, keep_until: Option<Time>) {
        let handoffs_began = if grant.kind == Kind::Exclusive { grant.handoffs_began } else { ServerTime(0) };
        let Grant { token, deadline, longest, .. } = *grant;
        self.leave(&ReleaseRequest { token, keep_until, handoffs_began, deadline, longest });
    }
}

/// Whether a lease that was not asked for on behalf of this waiter suits it: it has time to renew it, or need
/// not.
fn lasts<W>(grant: &Grant, head: &Waiter<W>, now: Time) -> bool {
    if mutated!(ShortLeaseHandedOn) {
        return true;
    }
    match head.want.renewal {
        Renewal::Keep => grant.deadline.duration_since(now) >= LONGEST_CLAIM.min(head.want.ttl) / 2,
        Renewal::Never => grant.deadline >= lease_end(now, head.want.ttl),
    }
}
