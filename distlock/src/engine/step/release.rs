//! A holder releases: the lease is handed on inside this process, or released on the server.

use std::time::Duration;

use super::Step;
use crate::engine::rules;
use crate::engine::state::{Grant, Linger};
use crate::engine::{LONGEST_CLAIM, ReleaseStarted};
use crate::error::LostReason;
use crate::lease_cell::{How, LeaseCell, Ticket};
use crate::protocol::{LockKind, Time, Token};

impl<W> Step<'_, W> {
    /// The holder releases, or was dropped.
    pub(crate) fn release(&mut self, cell: &LeaseCell) -> ReleaseStarted {
        self.end(cell, |step| {
            step.forget_min_hold(cell);
            step.let_go(cell.token, cell.ticket)
        })
    }

    /// The holder leaves its lease on the server, for the process that replaces it: no request of this process gets
    /// it, and nothing is released, not even by a late grant or reply.
    pub(crate) fn hand_over(&mut self, cell: &LeaseCell) -> ReleaseStarted {
        self.end(cell, |step| {
            if rules::leases_that_are_handed_over_stay() {
                step.state.take_lease(cell.token);
                step.env.releases.hand_over(cell.token);
                step.serve_here();
                return ReleaseStarted::HandedOn;
            }
            step.let_go(cell.token, cell.ticket)
        })
    }

    /// Ends a hold, by `end` if it has not ended yet.
    fn end(&mut self, cell: &LeaseCell, end: impl FnOnce(&mut Self) -> ReleaseStarted) -> ReleaseStarted {
        let current = self.state.lease(cell.token).is_some_and(|lease| lease.holder(cell.ticket).is_some());
        match (cell.release(self.now), current) {
            (Ok(()), true) => end(self),
            (Ok(()), false) => ReleaseStarted::HandedOn,
            (Err(reason), true) => {
                self.lose(cell.token, cell.ticket, reason);
                self.leave_lost(cell, reason)
            }
            (Err(reason), false) => self.leave_lost(cell, reason),
        }
    }

    /// `min_hold` does not apply: the requester never noticed the grant, so no body has run.
    fn forget_min_hold(&mut self, cell: &LeaseCell) {
        if let Some(lease) = self.state.lease(cell.token)
            && lease.grant.kind != LockKind::Shared
            && cell.give_up()
        {
            lease.min_until = None;
        }
    }

    /// Releases a lost lease once its body has ended: it may still be ours on the server.
    fn leave_lost(&mut self, cell: &LeaseCell, reason: LostReason) -> ReleaseStarted {
        let others_hold_it = self.state.lease(cell.token).is_some();
        let remains = cell.remains();
        self.state.lost.retain(|lost| lost.token != cell.token);
        let given_back = remains.is_some_and(|remains| remains.given_back);
        if reason != LostReason::Taken
            && !others_hold_it
            && !given_back
            && rules::lost_leases_are_given_back()
        {
            let keep_until = remains.and_then(|remains| remains.keep_until);
            let longest = remains.map_or(LONGEST_CLAIM, |remains| remains.longest);
            self.compensate_and_keep(cell.token, longest, keep_until.filter(|until| *until > self.now));
        }
        ReleaseStarted::WasLost(reason)
    }

    fn let_go(&mut self, token: Token, ticket: Ticket) -> ReleaseStarted {
        let now = self.now;
        let Some(lease) = self.state.lease(token) else { return ReleaseStarted::HandedOn };
        let linger = lease.remove(ticket).and_then(|holder| holder.linger);
        if lease.is_held() {
            lease.replan_renewal(now);
            return ReleaseStarted::HandedOn;
        }
        let keep_until = lease.min_until.filter(|until| *until > now);
        if keep_until.is_none() && linger.is_none() && self.hand_on(token) {
            self.serve_here();
            return ReleaseStarted::HandedOn;
        }
        let Some(mut lease) = self.state.take_lease(token) else { return ReleaseStarted::HandedOn };
        let stays_until = match keep_until {
            None if lease.may_stay_here() => self.stays_until(&mut lease.grant, linger),
            None | Some(_) => None,
        };
        let passed_on = keep_until.is_none()
            && lease.grant.kind != LockKind::Shared
            && (lease.may_be_passed_on(now) || stays_until.is_some())
            && self.env.refusal.is_none()
            && self.state.waiters.front().is_some_and(|head| {
                head.want.kind == lease.grant.kind && rules::takes_former_leases(&head.want)
            });
        if passed_on {
            self.start(Grant { how: How::HandedOn, ..lease.grant }, Duration::ZERO);
            self.serve_here();
            return ReleaseStarted::HandedOn;
        }
        if let Some(until) = stays_until.filter(|_| self.state.waiters.is_empty()) {
            self.keep(lease, until);
            return ReleaseStarted::HandedOn;
        }
        self.give_back(&lease.grant, keep_until);
        if !rules::leases_end_with_their_release() && !self.state.waiters.is_empty() {
            self.start(lease.grant, Duration::ZERO);
            return ReleaseStarted::Sent;
        }
        self.goes_on_after(&lease.grant);
        ReleaseStarted::Sent
    }

    /// Called after the lease was released: first other processes may get the lock, and then the waiters of this
    /// process.
    fn goes_on_after(&mut self, grant: &Grant) {
        let waits = !self.state.waiters.is_empty();
        if grant.kind == LockKind::Exclusive && waits {
            let gap = self.take_gap(grant);
            return self.next_attempt(gap);
        }
        // Sections that followed each other have kept plain pollers out.
        if matches!(grant.linger, Linger::Until(_))
            && let Some(gap) = self.take_gap(grant)
        {
            self.env.hints.left_free(self.key, self.now, gap);
        }
        self.serve_here();
    }

    /// The gap for plain pollers, if one is due now.
    fn take_gap(&mut self, grant: &Grant) -> Option<Duration> {
        let no_gap_since = self.state.no_gap_since?;
        // By the server's clock, if it is known, so that all processes agree on the gaps.
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
}
