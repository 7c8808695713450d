//! Renewing leases.

use std::time::Duration;

use super::Step;
use crate::engine::rules;
use crate::engine::{Command, Confirmation, Context, Effect, Failed, RenewPurpose, Renewal};
use crate::error::LostReason;
use crate::lease_cell::{LeaseCell, Ticket};
use crate::protocol::{OpResult, RenewReply, Time, Token, op};

/// A renewal never shortens a lease, so a renewal with this ttl only asks whether the lease is ours.
const SHORTEST_TTL: Duration = Duration::from_millis(1);

impl<W> Step<'_, W> {
    /// The server has promised the lease until `deadline` (on our clock).
    pub(super) fn extended(&mut self, token: Token, deadline: Time) {
        let now = self.now;
        let Some(lease) = self.state.lease(token) else { return };
        lease.grant.deadline = lease.grant.deadline.max(deadline);
        let kept: Vec<(Ticket, Time)> = lease
            .holders
            .iter()
            .filter(|holder| holder.renewal == Renewal::Keep || !rules::others_renewals_do_not_count())
            .map(|holder| (holder.cell.ticket, holder.may_rely_until(deadline)))
            .collect();
        lease.plan_renewal(now);
        for (ticket, until) in kept {
            self.hold_until(token, ticket, until);
        }
    }

    fn hold_until(&mut self, token: Token, ticket: Ticket, deadline: Time) {
        let now = self.now;
        let Some(lease) = self.state.lease(token) else { return };
        let Some(holder) = lease.holder(ticket) else { return };
        if !holder.cell.extend(now, deadline) {
            self.lose(token, ticket, LostReason::Expired);
            return;
        }
        holder.until = holder.until.max(holder.cell.capped(deadline));
        lease.plan_renewal(now);
    }

    /// A holder asks for its lease to last at least `ttl` from now. Later renewals use that ttl, too, if it is the
    /// longer one. False: no longer held.
    pub(crate) fn extend(&mut self, cell: &LeaseCell, ttl: Duration) -> bool {
        let Some(lease) = self.state.lease(cell.token) else { return false };
        if lease.last_renewal {
            return false;
        }
        let Some(holder) = lease.holder(cell.ticket) else { return false };
        if holder.renewal == Renewal::Keep && rules::extensions_are_remembered() {
            holder.ttl = holder.ttl.max(ttl);
        }
        self.send_renew(cell.token, Some(cell.ticket), ttl);
        true
    }

    /// A holder hands its lease over: renews it once more, for its whole ttl, which is returned. On some stores the
    /// lease then no longer belongs to this process, so nothing here may rely on it, whether the reply comes or not.
    /// `None`: no longer held.
    pub(crate) fn renew_last(&mut self, cell: &LeaseCell) -> Option<Duration> {
        let now = self.now;
        let lease = self.state.lease(cell.token)?;
        let ttl = lease.holder(cell.ticket)?.ttl;
        lease.last_renewal = true;
        lease.plan_renewal(now);
        // An earlier renewal may come to the store after this one: its "not held" says nothing.
        lease.grant.asked = now;
        self.send_renew(cell.token, Some(cell.ticket), ttl);
        Some(ttl)
    }

    pub(in crate::engine) fn renewals_are_due(&mut self) {
        if self.env.link.is_down() {
            return;
        }
        let now = self.now;
        for index in 0..self.state.leases.len() {
            let Some(lease) = self.state.leases.get_mut(index) else { return };
            let Some(ttl) = lease.renewal_ttl().filter(|_| lease.renew_at.is_some_and(|at| at <= now)) else {
                continue;
            };
            lease.plan_retry(now, ttl);
            if lease.is_worth_renewing() {
                let token = lease.grant.token;
                self.send_renew(token, None, ttl);
            }
        }
    }

    fn send_renew(&mut self, token: Token, ticket: Option<Ticket>, ttl: Duration) {
        let Some(lease) = self.state.lease(token) else { return };
        lease.grant.longest = lease.grant.longest.max(ttl);
        let op = op::Renew { token, kind: lease.grant.kind, ttl, last: lease.last_renewal };
        self.send(token, Command::Renew(RenewPurpose { ticket, ttl }, op));
    }

    /// Renews all leases now, because the known state of them may be wrong.
    pub(in crate::engine) fn renew_now(&mut self) {
        for lease in &mut self.state.leases {
            if lease.renewal_ttl().is_some() {
                lease.renew_at = Some(self.now);
            }
        }
        self.renewals_are_due();
    }

    /// The leases may have been taken away: asks the server about all of them, also those without renewal.
    pub(crate) fn ask_whether_held(&mut self) {
        self.end_lingering();
        for index in 0..self.state.leases.len() {
            let Some(lease) = self.state.leases.get_mut(index) else { return };
            if lease.last_renewal {
                continue;
            }
            let (token, ttl) = (lease.grant.token, lease.renewal_ttl().unwrap_or(SHORTEST_TTL));
            self.send_renew(token, None, ttl);
        }
    }

    /// The reply to a renewal.
    pub(super) fn on_renew_reply(
        &mut self,
        context: &Context,
        asked: RenewPurpose,
        result: OpResult<RenewReply>,
    ) -> Confirmation {
        let (token, RenewPurpose { ticket, ttl }) = (context.token, asked);
        let Some(lease) = self.state.lease(token) else { return Ok(()) };
        // After that command was sent, the lease was lost and acquired again with the same token.
        let is_old = rules::is_about_an_earlier_lease(context.sent, lease.grant.asked);
        match result {
            Ok(_) if is_old => Ok(()),
            Ok(RenewReply::Renewed { .. }) => {
                let cell = lease.holders.first().map(|holder| holder.cell.clone());
                let left = lease.grant.deadline.duration_since(self.now);
                let deadline = self.env.lease_end(context.sent, ttl);
                self.extended(token, deadline);
                if let Some(ticket) = ticket {
                    self.hold_until(token, ticket, deadline);
                }
                if let (Some(cell), true) = (cell, self.state.lease(token).is_some()) {
                    self.out.push(Effect::Renewed { cell, left });
                }
                Ok(())
            }
            Ok(RenewReply::NotHeld) if rules::refused_renewals_are_losses() => {
                self.lose_lease(token, LostReason::Taken);
                Err(Failed::Lost(LostReason::Taken))
            }
            Ok(RenewReply::NotHeld) => Ok(()),
            Err(error) if !rules::failed_renewals_are_no_losses() => {
                self.lose_lease(token, LostReason::Taken);
                Err(Failed::Unconfirmed(error))
            }
            Err(error) => Err(Failed::Unconfirmed(error)),
        }
    }

    /// The server's clock was set forward by `by`: its leases end that much earlier.
    pub(crate) fn clock_stepped(&mut self, by: Duration) {
        let now = self.now;
        if !rules::steps_shorten_leases() {
            return;
        }
        self.forget_pair();
        self.end_lingering();
        for lease in &mut self.state.leases {
            lease.grant.deadline = lease.grant.deadline.before(by);
            for holder in &mut lease.holders {
                holder.until = holder.until.before(by);
                holder.cell.shorten(now, holder.until);
            }
        }
        self.advance();
        if rules::steps_are_followed_by_renewals() {
            self.renew_now();
        }
    }
}
