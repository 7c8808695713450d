//! The state of one key in one process: its waiters, its attempt and its leases.

use super::attempt::Attempt;
use super::earlier;
use super::few::Few;
use super::lease::{Lease, LostLease};
use super::link::LinkStatus;
use super::waiters::Waiters;
use crate::engine::rules;
use crate::protocol::{LockKind, Time, Token};

#[derive(Debug)]
pub(crate) struct KeyState<W> {
    pub(crate) waiters: Waiters<W>,
    /// The attempt on behalf of the first waiter: asking the server, or queued there.
    pub(crate) attempt: Option<Box<Attempt>>,
    /// The leases of this process on the server. An exclusive lease is always the only one.
    pub(crate) leases: Few<Lease>,
    /// Leases that are lost here but last on the server. A release follows when their bodies end.
    pub(crate) lost: Vec<LostLease>,
    /// Numbers the acquire commands for this key in the order in which they are sent.
    pub(crate) seq: u64,
    /// When the machine's timers look at this key. It may become due later than that, but never earlier.
    pub(crate) timer: Option<Time>,
    /// Since when, as far as this process knows, there has been no gap for plain pollers.
    pub(crate) no_gap_since: Option<Time>,
}

impl<W> Default for KeyState<W> {
    fn default() -> Self {
        KeyState {
            waiters: Waiters::default(),
            attempt: None,
            leases: Few::None,
            lost: Vec::new(),
            seq: 0,
            timer: None,
            no_gap_since: None,
        }
    }
}

impl<W> KeyState<W> {
    pub(crate) fn is_idle(&self) -> bool {
        self.attempt.is_none() && self.leases.is_empty() && self.waiters.is_empty() && self.lost.is_empty()
    }

    pub(crate) fn lease(&mut self, token: Token) -> Option<&mut Lease> {
        self.leases.iter_mut().find(|lease| lease.grant.token == token)
    }

    pub(crate) fn take_lease(&mut self, token: Token) -> Option<Lease> {
        let index = self.leases.iter().position(|lease| lease.grant.token == token)?;
        self.leases.swap_remove(index)
    }

    /// A kind that is in use here and excludes `kind`.
    pub(crate) fn clash(&self, kind: LockKind) -> Option<LockKind> {
        let held = self.leases.iter().filter(|lease| lease.is_held()).map(|lease| lease.grant.kind);
        let attempted = self.attempt.iter().map(|attempt| attempt.kind);
        let awaited = self.waiters.front().map(|head| head.want.kind);
        let clashes = |other: &LockKind| {
            let limited =
                matches!(other, LockKind::Limited { .. }) || matches!(kind, LockKind::Limited { .. });
            limited && *other != kind
        };
        held.chain(attempted).chain(awaited).find(clashes)
    }

    /// Since when the server has not replied.
    pub(crate) fn silent(&self) -> Option<Time> {
        self.attempt.as_ref().and_then(|attempt| attempt.silent)
    }

    /// When the first timer of this key is due. It is computed from the state after every event, so no timer can be
    /// forgotten or outdated. A time too far away to be represented counts as not set.
    pub(crate) fn next_due(&self, link: &LinkStatus) -> Option<Time> {
        let ask = self.attempt.as_ref().and_then(|attempt| attempt.next_ask(link));
        let (mut end, mut renewal, mut linger) = (None, None, None);
        for lease in &self.leases {
            linger = earlier(linger, lease.lingers_until);
            end = earlier(end, lease.first_end());
            renewal = earlier(renewal, lease.renew_at);
        }
        let linger = linger.filter(|_| rules::lingering_ends_in_time());
        let renewal = renewal.filter(|_| !link.is_down());
        let lost = self.lost.iter().map(|lost| lost.ends).min();
        let ends = self.waiters.ends(self.silent());
        let timers = [ask, end, linger, renewal, lost, ends.wait, ends.unavailable_after];
        timers.into_iter().flatten().min().filter(|due| *due < Time::MAX)
    }
}
