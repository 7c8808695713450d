//! A lease of this process on the server, and who holds it here.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Renewal;
use crate::engine::rules;
use crate::lease_cell::{How, LeaseCell, Ticket};
use crate::protocol::{Kind, ServerTime, Time, Token};

/// A lease that is ours, with nobody holding it yet.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) token: Token,
    pub(crate) kind: Kind,
    pub(crate) deadline: Time,
    /// When it was entered from the server: the local chain is counted from here.
    pub(crate) entered: Time,
    /// Reserved fencing tokens that nobody has used.
    pub(crate) fences: Range<u64>,
    /// When the run of hand-offs began, if that is known.
    pub(crate) handoffs_began: Option<ServerTime>,
    /// The newest `enter` that was answered.
    pub(crate) seen: u64,
    /// The server's time when it was known to be ours, if it said.
    pub(crate) server_time: Option<ServerTime>,
    /// Refusals of what was sent before say nothing about this lease.
    pub(crate) asked: Time,
    /// The longest ttl that any command for it has asked for.
    pub(crate) longest: Duration,
    /// How it came to whoever is to hold it next.
    pub(crate) how: How,
}

/// One holder of a lease.
#[derive(Debug)]
pub(crate) struct Holder {
    pub(crate) cell: Arc<LeaseCell>,
    pub(crate) ttl: Duration,
    pub(crate) renewal: Renewal,
    /// Until when the holder may rely on it; what the cell says too.
    pub(crate) until: Time,
}

impl Holder {
    /// When it is over, unless something is heard of the store before.
    fn ends(&self) -> Time {
        self.until.min(self.cell.session_end())
    }
}

/// A lease with its holders: readers share one, every other kind has exactly one.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) grant: Grant,
    pub(crate) holders: Vec<Holder>,
    /// `min_hold`: the key stays taken until this time even if the lease is released earlier.
    pub(crate) min_until: Option<Time>,
    /// When to renew it next; `None`: nobody wants that.
    pub(crate) renew_at: Option<Time>,
}

impl Lease {
    /// When the first of its holders may not rely on it any more.
    pub(crate) fn first_end(&self) -> Option<Time> {
        self.holders.iter().map(Holder::ends).min()
    }

    pub(crate) fn holder(&mut self, ticket: Ticket) -> Option<&mut Holder> {
        self.holders.iter_mut().find(|holder| holder.cell.ticket == ticket)
    }

    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Holder> {
        let index = self.holders.iter().position(|holder| holder.cell.ticket == ticket)?;
        Some(self.holders.swap_remove(index))
    }

    /// Another task of this process may use it without asking the server.
    pub(crate) fn may_be_passed_on(&self, now: Time) -> bool {
        rules::is_within_the_chain(self.grant.entered, now) && now < self.grant.deadline
    }

    /// The ttl to renew with: the longest that a holder wants who has it renewed.
    pub(crate) fn renewal_ttl(&self) -> Option<Duration> {
        let renewing =
            |holder: &&Holder| holder.renewal == Renewal::Keep && holder.cell.may_last_beyond(holder.until);
        self.holders.iter().filter(renewing).map(|holder| holder.ttl).max()
    }

    /// Whether a renewal serves anybody: not, if nobody has noticed that the lock was granted. Then it ends with
    /// its ttl; a grant, which is shorter, is made as long as that.
    pub(crate) fn is_worth_renewing(&self) -> bool {
        self.holders.iter().any(|holder| {
            let is_short = self.grant.deadline < holder.cell.held_since.after(holder.ttl / 2);
            holder.renewal == Renewal::Keep && (is_short || rules::is_noticed(&holder.cell))
        })
    }

    /// Renewals fall due when two thirds of the ttl are left, but a grant, which is short, first proves that
    /// it lasts.
    pub(crate) fn plan_renewal(&mut self, now: Time) {
        self.renew_at = self.renewal_ttl().map(|ttl| {
            let first = now.after(rules::first_renewal_after(ttl));
            in_batches(self.grant.deadline.before(ttl * 2 / 3), ttl).max(first)
        });
    }

    /// A holder has come or gone: that may bring the next renewal forward, but never puts it off. Readers
    /// that go one after the other would put it off for ever.
    pub(crate) fn replan_renewal(&mut self, now: Time) {
        let planned = self.renew_at;
        self.plan_renewal(now);
        if !rules::renewals_are_never_put_off() {
            return;
        }
        self.renew_at = self.renew_at.map(|at| planned.map_or(at, |planned| at.min(planned)));
    }

    /// After a renewal was sent: the next try, if nothing is heard of this one.
    pub(crate) fn plan_retry(&mut self, now: Time, ttl: Duration) {
        let left = self.grant.deadline.duration_since(now);
        let pause = (ttl / 6).min(left / 3).max(Duration::from_millis(10));
        self.renew_at = Some(now.after(pause));
    }
}

/// Renewals that fall due close together go out together.
fn in_batches(at: Time, ttl: Duration) -> Time {
    let tick = u64::try_from((ttl / 100).min(Duration::from_millis(50)).as_nanos()).unwrap_or(1).max(1);
    Time(at.0 - at.0 % tick)
}
