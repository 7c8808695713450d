//! A lease of this process on the server, and its holders in this process.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::door::Door;
use super::few::Few;
use super::linger::Linger;
use super::waiters::Waiter;
use crate::engine::Renewal;
use crate::engine::rules;
use crate::lease_cell::{How, LeaseCell, Ticket};
use crate::protocol::{LockKind, ServerTime, Time, Token};

/// A lease that is ours and that no request of this process holds yet.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) token: Token,
    pub(crate) kind: LockKind,
    pub(crate) deadline: Time,
    /// When it was acquired from the server. The local chain counts from here.
    pub(crate) entered: Time,
    /// Reserved fencing tokens that are still unused.
    pub(crate) fences: Range<u64>,
    /// When the run of hand-offs began, if that is known.
    pub(crate) handoffs_began: Option<ServerTime>,
    /// The newest acquire command that was answered.
    pub(crate) last_seq: u64,
    /// The server's time when the lease was known to be ours, if the reply told it.
    pub(crate) server_time: Option<ServerTime>,
    /// When the lease was requested. A "not held" for a command from before says nothing about this lease.
    pub(crate) asked: Time,
    /// The longest ttl that any command for it asked for.
    pub(crate) longest: Duration,
    /// How the lease came to its next holder.
    pub(crate) how: How,
    /// Whether a holder of this process had a lease with this token.
    pub(crate) is_former: bool,
    pub(crate) linger: Linger,
}

impl Grant {
    /// Whether it has what a waiter needs that wants a fencing token.
    pub(crate) fn has_fence_for<W>(&self, waiter: &Waiter<W>) -> bool {
        !waiter.want.fenced || !self.fences.is_empty()
    }

    /// The next fencing token, if the waiter wants one.
    pub(crate) fn fence_for<W>(&mut self, waiter: &Waiter<W>) -> Option<u64> {
        if waiter.want.fenced { self.fences.next() } else { None }
    }
}

/// One holder of a lease.
#[derive(Debug)]
pub(crate) struct Holder {
    pub(crate) cell: Arc<LeaseCell>,
    pub(crate) ttl: Duration,
    pub(crate) renewal: Renewal,
    /// How long the lease may stay after this holder.
    pub(crate) linger: Option<Duration>,
    /// Until when the holder may rely on it. The cell has the same value.
    pub(crate) until: Time,
}

impl Holder {
    /// Until when the holder may rely on its lease, which lasts until `deadline`.
    pub(crate) fn may_rely_until(&self, deadline: Time) -> Time {
        self.cell.capped(rules::end_unless_noticed(deadline, &self.cell, self.ttl))
    }

    /// It wants renewal, and `max_hold` allows for more.
    fn is_renewed(&self) -> bool {
        self.renewal == Renewal::Keep && self.cell.may_last_beyond(self.until)
    }

    /// When the hold ends, unless a renewal or a session heartbeat is answered before.
    fn ends(&self) -> Time {
        self.cell.session_end().map_or(self.until, |end| self.until.min(end))
    }
}

/// A lease with its holders. Readers share one; a lease of any other kind has exactly one holder, or none while it
/// lingers. Then it is the only lease of its key, and no request of this process waits for the key.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) grant: Grant,
    pub(crate) holders: Few<Holder>,
    /// `min_hold`: the key stays taken until this time even if the lease is released earlier.
    pub(crate) min_until: Option<Time>,
    /// When the next renewal is due; `None`: no holder wants one.
    pub(crate) renew_at: Option<Time>,
    /// Set while it lingers: until then.
    pub(crate) lingers_until: Option<Time>,
    pub(crate) door: Door,
    /// Its holder hands it over, and has asked for the last time to renew it. On some stores, a renewal after that
    /// finds that the lease does not belong to this process.
    pub(crate) last_renewal: bool,
}

impl Lease {
    pub(crate) fn is_held(&self) -> bool {
        !self.holders.is_empty()
    }

    /// When the first of its holders may no longer rely on it.
    pub(crate) fn first_end(&self) -> Option<Time> {
        self.holders.iter().map(Holder::ends).min()
    }

    pub(crate) fn holder(&mut self, ticket: Ticket) -> Option<&mut Holder> {
        self.holders.iter_mut().find(|holder| holder.cell.ticket == ticket)
    }

    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Holder> {
        let index = self.holders.iter().position(|holder| holder.cell.ticket == ticket)?;
        if self.door == Door::Open {
            self.door = Door::OneHasLeft;
        }
        self.holders.swap_remove(index)
    }

    /// True if another task of this process may use it without asking the server.
    pub(crate) fn may_be_passed_on(&self, now: Time) -> bool {
        rules::is_within_the_chain(self.grant.entered, now)
            && now < self.grant.deadline
            && self.may_stay_here()
    }

    /// False: it may belong to the store alone, and ends unless it is taken over.
    pub(crate) fn may_stay_here(&self) -> bool {
        !self.last_renewal || !rules::leases_leave_with_their_last_renewal()
    }

    /// The ttl of the next renewal: the longest among the holders that want renewal.
    pub(crate) fn renewal_ttl(&self) -> Option<Duration> {
        if self.last_renewal {
            return None;
        }
        self.holders.iter().filter(|holder| holder.is_renewed()).map(|holder| holder.ttl).max()
    }

    /// True if a renewal is of use to a holder. It is not while no requester has noticed the grant; the lease
    /// then ends with its ttl. A grant is shorter than the ttl, so it is prolonged to the ttl once.
    pub(crate) fn is_worth_renewing(&self) -> bool {
        let is_of_use = |holder: &Holder| self.is_short(holder) || rules::is_noticed(&holder.cell);
        self.holders.iter().any(|holder| holder.renewal == Renewal::Keep && is_of_use(holder))
    }

    fn is_short(&self, holder: &Holder) -> bool {
        self.grant.deadline < holder.cell.held_since.after(holder.ttl / 2)
    }

    /// A renewal is due when two thirds of a holder's ttl are left. For a grant, which is short, the first renewal
    /// is due earlier.
    pub(crate) fn plan_renewal(&mut self, now: Time) {
        let due = |holder: &Holder| {
            let ttl = holder.ttl;
            // It may be useless to a holder that has not noticed its grant: it is not a reason to hurry.
            let is_urgent = self.is_short(holder) || rules::is_noticed(&holder.cell);
            let first = if is_urgent { rules::first_renewal_after(ttl) } else { ttl / 6 };
            in_batches(holder.until.before(ttl * 2 / 3), ttl).max(now.after(first))
        };
        let due = self.holders.iter().filter(|holder| holder.is_renewed()).map(due).min();
        self.renew_at = due.filter(|_| !self.last_renewal);
    }

    /// A holder has come or gone. This may bring the next renewal forward but never postpones it: readers
    /// that leave one after another would otherwise postpone it without end.
    pub(crate) fn replan_renewal(&mut self, now: Time) {
        let planned = self.renew_at;
        self.plan_renewal(now);
        if !rules::renewals_are_never_put_off() {
            return;
        }
        self.renew_at = self.renew_at.map(|at| planned.map_or(at, |planned| at.min(planned)));
    }

    /// Called after a renewal was sent: plans the next one in case this one gets no reply.
    pub(crate) fn plan_retry(&mut self, now: Time, ttl: Duration) {
        let ends = self.holders.iter().filter(|holder| holder.is_renewed()).map(|holder| holder.until);
        let left = ends.min().unwrap_or(self.grant.deadline).duration_since(now);
        let pause = (ttl / 6).min(left / 3).max(Duration::from_millis(10));
        self.renew_at = Some(now.after(pause));
    }
}

/// A lease that is lost here but lasts on the server. A body that ignores the loss keeps it until its ttl is over.
#[derive(Debug)]
pub(crate) struct LostLease {
    pub(crate) token: Token,
    /// When its ttl is over. A lease of a session is released then, if its body still runs.
    pub(crate) ends: Time,
    /// The longest ttl that any command for it asked for.
    pub(crate) longest: Duration,
}

/// Rounds the time, so that renewals that are due close together are sent together.
fn in_batches(at: Time, ttl: Duration) -> Time {
    let tick = u64::try_from((ttl / 100).min(Duration::from_millis(50)).as_nanos()).unwrap_or(1).max(1);
    Time(at.0 - at.0 % tick)
}
