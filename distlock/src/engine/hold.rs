//! Holding a lock: starting a hold on a lease, keeping the lease alive, handing it on, giving it back.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::cell::{CellState, HoldCell};
use super::key::{Stage, Step, Waiter};
use super::owed::Owed;
use super::shard::SETTLING;
use super::{CHAIN, CLAIM, Context, Effect, Outcome, Purpose, Release, Renewal, Verdict};
use crate::backend::{Failure, Op, OpResult, Reply, ServerTime, Token};
use crate::clock::{Time, lease_end};
use crate::error::LostReason;

/// A lease that is ours, with nobody holding it yet.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) token: Token,
    pub(super) deadline: Time,
    /// When it was entered from the server: the local chain is counted from here.
    pub(super) entered: Time,
    /// Reserved fencing tokens that nobody has used.
    pub(super) fences: Range<u64>,
    /// When the run of hand-offs began.
    pub(super) since: ServerTime,
    /// The newest `enter` that was answered.
    pub(super) seen: u64,
    pub(super) unsettled: bool,
}

/// A lease with its holder.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) token: Token,
    deadline: Time,
    entered: Time,
    fences: Range<u64>,
    since: ServerTime,
    seen: u64,
    pub(super) unsettled: bool,
    cell: Arc<HoldCell>,
    ttl: Duration,
    renewal: Renewal,
    min_until: Option<Time>,
    /// Until when the holder may rely on it; what the cell says too.
    until: Time,
    renew_at: Time,
}

impl Lease {
    pub(super) fn due(&self, link_is_down: bool) -> Time {
        if link_is_down { self.until } else { self.until.min(self.renew_at) }
    }

    /// Renewals fall due when two thirds of the ttl are left, but a grant, which is short, first proves that
    /// it lasts.
    fn plan_renewal(&mut self, now: Time) {
        self.renew_at = match self.renewal {
            Renewal::Never => Time::MAX,
            Renewal::Keep if self.until >= self.cell.cap => Time::MAX,
            Renewal::Keep => {
                let first = (CLAIM.min(self.ttl) / 3).min(Duration::from_millis(100));
                in_batches(self.deadline.before(self.ttl * 2 / 3), self.ttl).max(now.after(first))
            }
        };
    }

    /// After a renewal was sent: the next try, if nothing is heard of this one.
    fn plan_retry(&mut self, now: Time) {
        let left = self.until.since(now);
        let pause = (self.ttl / 6).min(left / 3).max(Duration::from_millis(10));
        self.renew_at = now.after(pause);
    }
}

/// Renewals that fall due close together go out together.
fn in_batches(at: Time, ttl: Duration) -> Time {
    let tick = u64::try_from((ttl / 100).min(Duration::from_millis(50)).as_nanos()).unwrap_or(1).max(1);
    Time(at.0 - at.0 % tick)
}

impl<W> Step<'_, W> {
    /// Time first: a deadline that has passed is a loss before anything else happens.
    pub(super) fn advance(&mut self) {
        if let Stage::Held(lease) = &self.state.stage {
            if let CellState::Lost(reason) = lease.cell.state(self.now) {
                self.lose(reason);
            } else if self.now >= lease.until {
                self.lose(LostReason::Expired);
            }
        }
    }

    /// Gives a lease to the first waiter. `covered` is the ttl that the server was asked for on behalf of
    /// the first waiter; zero for a lease that was granted or is handed on.
    pub(super) fn start(&mut self, ready: Ready, covered: Duration) {
        let Some(head) = self.state.waiters.front() else {
            self.state.stage = Stage::Idle;
            self.leave(ready.token, None, ready.since, ready.deadline, ready.unsettled);
            return;
        };
        let long_enough = covered >= head.want.ttl
            || match head.want.renewal {
                Renewal::Keep => ready.deadline.since(self.now) >= CLAIM.min(head.want.ttl) / 2,
                Renewal::Never => ready.deadline >= lease_end(self.now, head.want.ttl),
            };
        let has_fence = !head.want.fenced || !ready.fences.is_empty();
        match (long_enough && has_fence).then(|| self.state.waiters.pop()).flatten() {
            Some(waiter) => self.begin(ready, waiter),
            None => self.ask_for_more(ready),
        }
    }

    fn begin(&mut self, mut ready: Ready, waiter: Waiter<W>) {
        let Waiter { ticket, want, who, .. } = waiter;
        let fence = if want.fenced { ready.fences.next() } else { None };
        let cap = want.max_hold.map_or(Time::MAX, |hold| self.now.after(hold));
        let until = match want.renewal {
            Renewal::Keep => ready.deadline,
            Renewal::Never => ready.deadline.min(lease_end(self.now, want.ttl)),
        };
        let cell =
            HoldCell::new(self.key.clone(), want.label, ticket, ready.token, fence, self.now, cap, until);
        let cell = Arc::new(cell);
        let mut lease = Lease {
            token: ready.token,
            deadline: ready.deadline,
            entered: ready.entered,
            fences: ready.fences,
            since: ready.since,
            seen: ready.seen,
            unsettled: ready.unsettled,
            cell: cell.clone(),
            ttl: want.ttl,
            renewal: want.renewal,
            min_until: want.min_hold.map(|hold| self.now.after(hold)),
            until: until.min(cap),
            renew_at: Time::MAX,
        };
        lease.plan_renewal(self.now);
        self.state.stage = Stage::Held(Box::new(lease));
        self.out.push(Effect::Done(who, Outcome::Acquired(cell.clone())));
        let holder = self.own_text(cell.token);
        self.dismiss_impatient(&holder);
    }

    /// The holder lets go, or is gone.
    pub(super) fn release(&mut self, cell: &HoldCell) -> Release {
        let current = matches!(&self.state.stage, Stage::Held(lease) if lease.cell.ticket == cell.ticket);
        match (cell.release(self.now), current) {
            (Ok(()), true) => self.let_go(),
            (Ok(()), false) => Release::HandedOn,
            (Err(reason), true) => {
                self.lose(reason);
                self.leave_lost(cell, reason)
            }
            (Err(reason), false) => self.leave_lost(cell, reason),
        }
    }

    /// A lost lease is left once its body has ended: it may be ours on the server still.
    fn leave_lost(&mut self, cell: &HoldCell, reason: LostReason) -> Release {
        if reason != LostReason::Taken {
            self.leave(cell.token, None, ServerTime(0), Time(0), false);
        }
        Release::WasLost(reason)
    }

    fn let_go(&mut self) -> Release {
        let Stage::Held(lease) = std::mem::take(&mut self.state.stage) else { return Release::HandedOn };
        let Lease { token, deadline, entered, fences, since, seen, unsettled, min_until, .. } = *lease;
        let hold = min_until.map(|until| until.since(self.now)).filter(|hold| !hold.is_zero());
        let more_wait_here = !self.state.waiters.is_empty() && !self.env.closed;
        let chain_goes_on = self.now < entered.after(CHAIN) && self.now < deadline;
        if more_wait_here && hold.is_none() && chain_goes_on {
            self.start(Ready { token, deadline, entered, fences, since, seen, unsettled }, Duration::ZERO);
            return Release::HandedOn;
        }
        self.leave(token, hold, since, deadline, unsettled);
        if more_wait_here {
            let gap_is_due = self.state.occupied.is_some_and(|start| {
                self.now.since(start) >= self.env.tuning.every && !self.env.tuning.gap.is_zero()
            });
            if gap_is_due {
                self.state.occupied = None;
            }
            self.next_attempt(gap_is_due.then_some(self.env.tuning.gap));
        }
        Release::Leaving
    }

    /// Sends a `leave`, and sends it once more if a command that it should follow may still overtake it.
    pub(super) fn leave(
        &mut self,
        token: Token,
        hold: Option<Duration>,
        since: ServerTime,
        deadline: Time,
        unsettled: bool,
    ) {
        self.leave_by(token, hold, since, deadline, deadline, unsettled);
    }

    /// Undoes what an attempt that nobody wants any more may have done. `lives_until`: until when the server
    /// may keep it, so that an outage of any length leaves nothing behind.
    pub(super) fn undo(&mut self, token: Token, lives_until: Time, unsettled: bool) {
        self.leave_by(token, None, ServerTime(0), Time(0), lives_until, unsettled);
    }

    fn leave_by(
        &mut self,
        token: Token,
        hold: Option<Duration>,
        since: ServerTime,
        deadline: Time,
        lives_until: Time,
        unsettled: bool,
    ) {
        let until = lives_until.max(self.now).after(SETTLING * 2).after(CLAIM);
        if unsettled && !mutated!(NoCompensationAfterLinkChange) {
            let at = self.now.after(SETTLING);
            self.owed.add(Owed { key: self.key.clone(), token, sends: 1, at, until });
        }
        let hold = hold.map(whole_millis);
        self.send(token, Purpose::Leave { sends: 1, deadline, until }, Op::Leave { token, hold, since });
    }

    pub(super) fn leave_again(&mut self, owed: &Owed) {
        let purpose = Purpose::Leave { sends: owed.sends + 1, deadline: Time(0), until: owed.until };
        self.send(owed.token, purpose, Op::Leave { token: owed.token, hold: None, since: ServerTime(0) });
    }

    /// The answer to a `leave`.
    pub(super) fn left(
        &mut self,
        context: &Context,
        sends: u32,
        deadline: Time,
        until: Time,
        result: OpResult,
    ) -> Verdict {
        match result {
            Ok(Reply::NotYours) if mutated!(ResentLeaveReported) => Verdict::Lost(LostReason::Taken),
            Ok(Reply::NotYours) if sends == 1 && self.now < deadline => Verdict::Lost(LostReason::Taken),
            Ok(_) => Verdict::Fine,
            Err(error) => {
                let worth_repeating = error.kind != Failure::Refused && self.now < until;
                if worth_repeating && !mutated!(NoCompensationAfterLinkChange) {
                    let (key, token) = (self.key.clone(), context.token);
                    let owed = Owed { key, token, sends, at: self.now, until };
                    self.owed.again(self.now, owed, self.env.link.is_down());
                }
                Verdict::Failed(error)
            }
        }
    }

    /// The current hold is over without having been released.
    pub(super) fn lose(&mut self, reason: LostReason) {
        let Stage::Held(lease) = std::mem::take(&mut self.state.stage) else { return };
        let reason = lease.cell.lose(self.now, reason);
        self.out.push(Effect::Lost(lease.cell.clone(), reason));
        if !self.state.waiters.is_empty() {
            if mutated!(HandOnAfterLoss) {
                let Lease { token, entered, fences, since, seen, unsettled, .. } = *lease;
                let deadline = self.now.after(lease.ttl);
                self.start(Ready { token, deadline, entered, fences, since, seen, unsettled }, lease.ttl);
                return;
            }
            self.next_attempt(None);
        }
    }

    /// The answer to an `enter` whose token is the current lease's.
    pub(super) fn entered_while_held(
        &mut self,
        context: &Context,
        seq: u64,
        ttl: Duration,
        result: &OpResult,
    ) {
        let Stage::Held(lease) = &mut self.state.stage else { return };
        if seq < lease.seen && !mutated!(StaleReplyBelieved) {
            return;
        }
        lease.seen = lease.seen.max(seq);
        match result {
            Ok(Reply::Mine { .. }) => {
                if !mutated!(MineDoesNotExtend) {
                    self.extended(lease_end(context.sent, ttl));
                }
            }
            Ok(Reply::Fresh { .. }) if mutated!(FreshWhileHeldTakenAsMine) => {
                self.extended(lease_end(context.sent, ttl));
            }
            Ok(Reply::Fresh { .. }) => {
                // The lock was lost in between, and this command took it anew.
                let (token, unsettled) = (lease.token, lease.unsettled);
                self.lose(LostReason::Expired);
                self.undo(token, context.sent.after(ttl), unsettled);
            }
            _ => {}
        }
    }

    fn extended(&mut self, deadline: Time) {
        let now = self.now;
        let Stage::Held(lease) = &mut self.state.stage else { return };
        lease.deadline = lease.deadline.max(deadline);
        if lease.renewal == Renewal::Keep {
            self.hold_until(deadline, now);
        }
    }

    fn hold_until(&mut self, deadline: Time, now: Time) {
        let Stage::Held(lease) = &mut self.state.stage else { return };
        if !lease.cell.extend(now, deadline) {
            self.lose(LostReason::Expired);
            return;
        }
        lease.until = lease.until.max(deadline.min(lease.cell.cap));
        lease.plan_renewal(now);
    }

    /// The lease is to end `ttl` from now, at the earliest.
    pub(super) fn extend(&mut self, cell: &HoldCell, ttl: Duration) -> bool {
        let Stage::Held(lease) = &mut self.state.stage else { return false };
        if lease.cell.ticket != cell.ticket {
            return false;
        }
        if lease.renewal == Renewal::Keep {
            lease.ttl = lease.ttl.max(ttl);
        }
        let (token, ticket) = (lease.token, cell.ticket);
        self.send(token, Purpose::Renew { ticket, ttl }, Op::Renew { token, ttl });
        true
    }

    pub(super) fn renewal_is_due(&mut self) {
        let now = self.now;
        let link_is_down = self.env.link.is_down();
        let Stage::Held(lease) = &mut self.state.stage else { return };
        if lease.renew_at > now || link_is_down {
            return;
        }
        lease.plan_retry(now);
        let (token, ttl, ticket) = (lease.token, lease.ttl, lease.cell.ticket);
        self.send(token, Purpose::Renew { ticket, ttl }, Op::Renew { token, ttl });
    }

    /// Whatever was known about the lease may be wrong: ask the server.
    pub(super) fn renew_now(&mut self) {
        let now = self.now;
        if let Stage::Held(lease) = &mut self.state.stage
            && lease.renewal == Renewal::Keep
            && lease.until < lease.cell.cap
        {
            lease.renew_at = now;
        }
        self.renewal_is_due();
    }

    /// The answer to a renewal.
    pub(super) fn renewed(
        &mut self,
        context: &Context,
        ticket: super::Ticket,
        ttl: Duration,
        result: OpResult,
    ) -> Verdict {
        let now = self.now;
        let Stage::Held(lease) = &mut self.state.stage else { return Verdict::None };
        if lease.token != context.token {
            return Verdict::None;
        }
        match result {
            Ok(Reply::Renewed { .. }) => {
                let deadline = lease_end(context.sent, ttl);
                lease.deadline = lease.deadline.max(deadline);
                if lease.cell.ticket != ticket {
                    return Verdict::None;
                }
                let cell = lease.cell.clone();
                self.hold_until(deadline, now);
                if matches!(self.state.stage, Stage::Held(_)) {
                    self.out.push(Effect::Renewed(cell));
                }
                Verdict::Fine
            }
            Ok(Reply::NotYours) if mutated!(ForceReleaseNotReported) => Verdict::None,
            Ok(Reply::NotYours) => {
                self.lose(LostReason::Taken);
                Verdict::Lost(LostReason::Taken)
            }
            Ok(_) => Verdict::None,
            Err(error) if mutated!(IoErrorReportedAsLost) => {
                self.lose(LostReason::Taken);
                Verdict::Failed(error)
            }
            Err(error) => Verdict::Failed(error),
        }
    }

    /// The server's clock went forward by `by`: its expiries come that much earlier.
    pub(super) fn clock_stepped(&mut self, by: Duration) {
        let now = self.now;
        if mutated!(StepIgnored) {
            return;
        }
        self.forget_pair();
        if let Stage::Held(lease) = &mut self.state.stage {
            lease.deadline = lease.deadline.before(by);
            lease.until = lease.until.before(by);
            lease.cell.shorten(now, lease.until);
            self.advance();
        }
        self.renew_now();
    }

    /// A push for a token that this process does not wait with: whatever it stands for is given back.
    pub(super) fn unknown_grant(&mut self, token: Token) {
        if !mutated!(UnknownPushIgnored) {
            self.leave(token, None, ServerTime(0), Time(0), false);
        }
    }

    /// The answer to an `enter` of a token that nobody wants any more.
    pub(super) fn entered_in_vain(&mut self, context: &Context, queues: bool, result: &OpResult) {
        match result {
            Ok(Reply::Fresh { .. } | Reply::Mine { .. }) => {}
            Ok(Reply::Busy { .. }) if queues => {}
            _ => return,
        }
        let Purpose::Enter { ttl, .. } = context.purpose else { return };
        self.undo(context.token, context.sent.after(ttl), false);
    }

    /// Everything ends: waiting requests now, holds when `lose_all` says so.
    pub(super) fn close(&mut self) {
        self.dismiss_all(&Outcome::Closed);
        self.abandon_attempt();
    }

    pub(super) fn mark_unsettled(&mut self) {
        match &mut self.state.stage {
            Stage::Attempt(attempt) => attempt.unsettled |= attempt.may_be_applied(),
            Stage::Held(lease) => lease.unsettled = true,
            Stage::Idle => {}
        }
    }
}

fn whole_millis(d: Duration) -> Duration {
    Duration::from_millis(u64::try_from(d.as_millis()).unwrap_or(u64::MAX).max(1))
}
