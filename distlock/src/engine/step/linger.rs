//! Leases that stay with this process after their last section, so that the next one needs no command.
//!
//! A lease that lingers has no holder and is not renewed. It is released when its time is over, when another client
//! wants the lock, and whenever this process may miss that request.

use std::time::Duration;

use super::Step;
use crate::engine::rules;
use crate::engine::state::{Door, Grant, Lease, Linger};
use crate::lease_cell::How;
use crate::protocol::{LockKind, Notifications, Time, Token, Wanted};

impl<W> Step<'_, W> {
    /// Returns the token of a new attempt on behalf of the first waiter.
    pub(super) fn attempt_token(&mut self) -> Token {
        let token = self.next_token();
        let head = self.state.waiters.front().filter(|head| head.want.kind == LockKind::Exclusive);
        match head.and_then(|head| rules::lingering_time(&head.want)) {
            // Another client that comes back soon would have to ask for it again.
            Some(linger) if !self.env.wanted.is_contended(self.key, self.now) => token.lingering(linger),
            _ => token,
        }
    }

    /// Until when a lease may stay whose last holder here has just released it. It counts from the first release since
    /// the server gave the lease: so other processes get it in that time even if no push arrives and sections follow
    /// each other.
    pub(super) fn stays_until(&self, grant: &mut Grant, linger: Option<Duration>) -> Option<Time> {
        let from_now = self.now.after(rules::time_without_a_section(linger?));
        let until = match grant.linger {
            Linger::Never => return None,
            Linger::May => from_now,
            Linger::Until(until) => rules::end_of_lingering(until, from_now),
        };
        grant.linger = Linger::Until(until);
        let until = rules::within_the_lease(until, grant.deadline);
        (self.env.refusal.is_none() && self.hears_of_others() && self.now < until).then_some(until)
    }

    fn hears_of_others(&self) -> bool {
        let link = &self.env.link;
        let told = self.env.tuning.wanted == Wanted::Pushed && rules::lingering_takes_pushes();
        !link.is_down() && (!told || link.pushes == Notifications::On)
    }

    /// Keeps a lease that no request of this process holds or waits for.
    pub(super) fn keep(&mut self, mut lease: Lease, until: Time) {
        lease.renew_at = None;
        lease.lingers_until = Some(until);
        self.state.leases.push(lease);
    }

    /// Gives a lease that lingers to the first waiter. If that one needs its own lease, the lease is released.
    pub(super) fn take_up(&mut self) {
        let Some(head) = self.state.waiters.front() else { return };
        let ttl = head.want.ttl;
        if !rules::takes_former_leases(&head.want) {
            return self.end_lingering();
        }
        let Some(Lease { grant, .. }) = self.take_lingering() else { return };
        let deadline = rules::end_after_lingering(grant.deadline, self.now, ttl);
        let fences = rules::fences_after_lingering(grant.fences);
        self.start(Grant { how: How::HandedOn, deadline, fences, ..grant }, Duration::ZERO);
    }

    fn take_lingering(&mut self) -> Option<Lease> {
        let index = self.state.leases.iter().position(|lease| lease.lingers_until.is_some())?;
        self.state.leases.swap_remove(index)
    }

    /// Releases a lease that lingers.
    pub(super) fn end_lingering(&mut self) {
        if let Some(lease) = self.take_lingering() {
            self.give_back(&lease.grant, None);
        }
    }

    /// Releases a lease whose lingering time, or whose session, is over.
    pub(super) fn lingering_may_end(&mut self) {
        let now = self.now;
        let session_over = self.env.session().is_some_and(|session| session.is_over(now));
        let ends = |lease: &Lease| lease.lingers_until.is_some_and(|until| until <= now || session_over);
        if self.state.leases.iter().any(ends) && rules::lingering_ends_in_time() {
            self.end_lingering();
        }
    }

    /// From now on no lease lingers that this process has or is about to get: requests of other clients for it may have
    /// been lost.
    pub(in crate::engine) fn lingers_no_longer(&mut self) {
        self.end_lingering();
        for lease in &mut self.state.leases {
            lease.grant.linger = Linger::Never;
        }
        if let Some(attempt) = &mut self.state.attempt {
            attempt.linger = Linger::Never;
        }
    }

    /// Whether readers have the lock with `token`, or are about to. Then the client that wants it is a writer.
    fn readers_are_in_the_way(&mut self, token: Token) -> bool {
        let lease = self.state.leases.iter_mut().find(|lease| lease.grant.token == token);
        let awaited = self.state.attempt.as_ref().filter(|attempt| attempt.token == token);
        let kind = lease.as_ref().map(|lease| lease.grant.kind).or(awaited.map(|attempt| attempt.kind));
        if kind != Some(LockKind::Shared) {
            return false;
        }
        // This applies to the lease that the attempt is about to get, and to later leases.
        self.env.hints.contended(self.key, self.now);
        if let Some(lease) = lease {
            lease.door = Door::Closed;
        }
        true
    }

    /// A push says that another client wants the lock that `token` has.
    pub(super) fn on_wanted(&mut self, token: Token) {
        if !rules::wanted_leases_are_given_back() {
            return;
        }
        if self.readers_are_in_the_way(token) {
            return;
        }
        self.env.wanted.contended(self.key, self.now);
        let lingers = self.state.lease(token).is_some_and(|lease| lease.lingers_until.is_some());
        if lingers {
            return self.end_lingering();
        }
        if !rules::wanted_during_a_section_is_remembered() {
            return;
        }
        if let Some(lease) = self.state.lease(token) {
            lease.grant.linger = Linger::Never;
        }
        if let Some(attempt) = self.state.attempt.as_mut().filter(|attempt| attempt.token == token) {
            attempt.linger = Linger::Never;
        }
    }
}
