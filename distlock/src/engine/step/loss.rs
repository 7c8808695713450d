//! Holds that end without a release.

use super::Step;
use crate::engine::Effect;
use crate::engine::rules;
use crate::engine::state::{Grant, Holder, Lease, LostLease};
use crate::error::LostReason;
use crate::lease_cell::{CellState, LeaseCell, Remains, Ticket};
use crate::protocol::{LockKind, Token, ttl_end};

impl<W> Step<'_, W> {
    /// Time first: a deadline that has passed is a loss before anything else happens.
    pub(in crate::engine) fn advance(&mut self) {
        let now = self.now;
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
        self.lost_leases_may_end();
        self.lingering_may_end();
    }

    /// Forgets lost leases whose ttl is over. A lease that lives as long as the session does not end with it, so it is
    /// released.
    fn lost_leases_may_end(&mut self) {
        while let Some(index) = self.state.lost.iter().position(|lost| lost.ends <= self.now) {
            let LostLease { token, longest, .. } = self.state.lost.swap_remove(index);
            if self.env.session().is_some() && rules::leases_of_sessions_are_ended() {
                self.compensate(token, longest);
            }
        }
    }

    /// Ends a hold as lost.
    pub(super) fn lose(&mut self, token: Token, ticket: Ticket, reason: LostReason) {
        let now = self.now;
        let Some(lease) = self.state.lease(token) else { return };
        let Some(holder) = lease.remove(ticket) else { return };
        let reason = holder.cell.lose(now, reason);
        let unclaimed = holder.cell.give_up();
        if !unclaimed {
            self.out.push(Effect::Lost(holder.cell.clone(), reason));
        }
        if reason == LostReason::Expired && !holder.cell.is_claimed() {
            self.out.push(Effect::NotTaken {
                cell: holder.cell.clone(),
                after: now.duration_since(holder.cell.held_since),
            });
        }
        if !lease.holders.is_empty() {
            lease.replan_renewal(now);
            return;
        }
        let Some(mut lease) = self.state.take_lease(token) else { return };
        if !rules::leases_end_with_their_loss() && !self.state.waiters.is_empty() {
            lease.grant.deadline = now.after(holder.ttl);
            self.start(lease.grant, holder.ttl);
            return;
        }
        if unclaimed && reason != LostReason::Taken {
            // No body runs whose end we would have to wait for.
            let longest = lease.grant.longest;
            holder.cell.leave_behind(Remains { keep_until: None, given_back: true, longest });
            self.give_back(&lease.grant, lease.min_until.filter(|_| lease.grant.kind == LockKind::Shared));
        } else {
            self.leave_to_body(&holder.cell, &lease, reason);
        }
        if rules::waiters_are_served_after_a_loss() {
            self.serve_here();
        }
    }

    /// `min_hold` applies even if the hold was lost, unless the key was taken away. The release that keeps
    /// the key is sent when the body has ended; until then the lease covers it. It is sent at once if the
    /// lease may end before `min_hold` does, or if readers shared the lease (another of them may have asked
    /// for `min_hold`, and its body may still run).
    fn leave_to_body(&mut self, cell: &LeaseCell, lease: &Lease, reason: LostReason) {
        let now = self.now;
        let keep_until = lease.min_until.filter(|until| *until > now && reason != LostReason::Taken);
        let keep_until = keep_until.filter(|_| rules::min_hold_outlives_a_loss());
        let grant = &lease.grant;
        let given_back =
            keep_until.is_some_and(|until| grant.kind == LockKind::Shared || until >= grant.deadline);
        if given_back {
            self.give_back(grant, keep_until);
        } else if reason != LostReason::Taken {
            let Grant { token, deadline, longest, .. } = *grant;
            // A session that is over here may live on at the server, if a heartbeat comes just in time. Then nothing
            // else would end the lease while its body runs.
            let session_is_over = self.env.session().is_some_and(|session| session.deadline() <= now);
            let ends = if session_is_over { now } else { ttl_end(deadline, longest) };
            self.state.lost.push(LostLease { token, ends, longest });
        }
        cell.leave_behind(Remains { keep_until, given_back, longest: grant.longest });
    }

    /// The session has ended, and with it the server's queue: nothing that it granted is valid now.
    pub(crate) fn lose_session(&mut self) {
        self.forget_pair();
        self.lose_all(LostReason::Expired);
        self.ask_afresh();
    }

    /// The lease itself is lost: all its holders have lost it.
    pub(super) fn lose_lease(&mut self, token: Token, reason: LostReason) {
        while let Some(ticket) =
            self.state.lease(token).and_then(|lease| lease.holders.first()).map(|holder| holder.cell.ticket)
        {
            self.lose(token, ticket, reason);
        }
        // It lingered: no holder has to learn of it, and the next request asks for the lock again.
        if let Some(lease) = self.state.take_lease(token)
            && reason != LostReason::Taken
        {
            self.give_back(&lease.grant, None);
        }
    }

    /// Every hold is lost. Leases end when their holders release them, or with their ttl.
    pub(crate) fn lose_all(&mut self, reason: LostReason) {
        while let Some(token) = self.state.leases.first().map(|lease| lease.grant.token) {
            self.lose_lease(token, reason);
        }
    }
}
