//! Pushes from the server: the lock was granted to this process, or is left free for a moment.

use std::time::Duration;

use super::Step;
use crate::engine::LONGEST_CLAIM;
use crate::engine::rules;
use crate::engine::state::{Attempt, Grant};
use crate::lease_cell::How;
use crate::protocol::{Clocks, Push, PushHint, ServerTime, Time, Token, lease_end};

impl<W> Step<'_, W> {
    pub(crate) fn on_push(&mut self, push: &Push) {
        #[cfg(test)]
        self.record_push(push);
        match *push {
            Push::Gap { token, .. } => self.on_gap(token),
            Push::Wanted { token, .. } => self.on_wanted(token),
            Push::Grant { token, server_time, handoffs_began, fence, .. } => {
                if self.state.attempt.as_ref().is_some_and(|attempt| attempt.token == token) {
                    self.on_grant(token, server_time, handoffs_began, fence);
                } else if self.state.lease(token).is_none() {
                    self.on_unknown_grant(token);
                }
            }
        }
    }

    pub(crate) fn on_notice(&mut self, notice: &PushHint) {
        match notice {
            PushHint::Free { .. } => self.may_be_free(),
            PushHint::Unproven { token, .. } => self.given(*token),
        }
    }

    /// A push says that the lock has been ours since `server_time`.
    pub(super) fn on_grant(
        &mut self,
        token: Token,
        server_time: ServerTime,
        handoffs_began: ServerTime,
        fence: Option<u64>,
    ) {
        self.with_attempt(|step, mut attempt| {
            if attempt.token != token {
                return Some(attempt);
            }
            attempt.handoffs_began = Some(handoffs_began);
            attempt.how = Some(How::Granted);
            let is_plausible = rules::fence_is_plausible(fence, server_time, step.env.tuning.fences);
            let deadline = step.grant_deadline(&attempt, server_time).filter(|_| is_plausible);
            let Some(deadline) = deadline else { return step.confirm(attempt, server_time) };
            let fences = u64::from(attempt.fences.unwrap_or(0));
            let first = fence.unwrap_or(0);
            let fences = first..first.saturating_add(fence.map_or(0, |_| rules::granted_fences(fences)));
            step.state.no_gap_since =
                Some(step.now.before(Duration::from_micros(server_time.0.saturating_sub(handoffs_began.0))));
            let grant = Grant {
                token,
                kind: attempt.kind,
                deadline,
                entered: step.now,
                fences,
                handoffs_began: Some(handoffs_began),
                last_seq: rules::answered_before_the_grant(attempt.last_seq),
                server_time: Some(server_time),
                asked: step.now,
                longest: attempt.longest,
                how: How::Granted,
                is_former: attempt.is_former,
                linger: rules::lingers_after_a_wait(attempt.linger),
            };
            step.start(grant, Duration::ZERO);
            None
        });
    }

    /// Until when a grant that was made at `granted` may be relied on without asking the server: `t_S + (1 −
    /// ρ)·((G − S) + C) − margin`. `None`: the server has to be asked, and the lease counts from then.
    fn grant_deadline(&self, attempt: &Attempt, granted: ServerTime) -> Option<Time> {
        if !rules::grants_are_counted_from_when_they_were_made() {
            return Some(lease_end(self.now, attempt.claim));
        }
        let (server, sent) = attempt.queued_times?;
        let between = rules::made_after(server, granted)?;
        let span = Duration::from_micros(between).saturating_add(attempt.claim);
        if rules::is_from_the_future(lease_end(sent, Duration::from_micros(between)), self.now) {
            return None;
        }
        let deadline = lease_end(sent, span);
        (deadline > self.now.after(attempt.claim / 2)).then_some(deadline)
    }

    /// Asks the server about a grant whose age is unknown. Ignores a grant that is older than the known state, if both
    /// times are of the same clock. Times of different clocks, or a grant of which only a maximum age is known, prove
    /// nothing.
    fn confirm(&mut self, mut attempt: Box<Attempt>, granted: ServerTime) -> Option<Box<Attempt>> {
        let is_one_clock = self.env.tuning.clocks == Clocks::One;
        let stale = is_one_clock && attempt.queued_times.is_some_and(|(server, _)| granted < server);
        if !stale {
            self.ask(&mut attempt);
        }
        Some(attempt)
    }

    /// The key may be free: an attempt that is queued or polls asks at once.
    pub(super) fn may_be_free(&mut self) {
        let now = self.now;
        if let Some(attempt) = &mut self.state.attempt
            && attempt.traces.is_queued()
        {
            attempt.phase.put_to(now);
        }
    }

    /// The server granted something to `token`. If an attempt uses the token, it asks for the details. Otherwise the
    /// grant is released.
    pub(super) fn given(&mut self, token: Token) {
        if let Some(attempt) = self.state.attempt.as_mut().filter(|attempt| attempt.token == token) {
            if attempt.batch_role.is_none() {
                attempt.phase.put_to(self.now);
            }
        } else if self.state.lease(token).is_none() {
            self.on_unknown_grant(token);
        }
    }

    /// A push says that the key is left free for plain pollers for a moment.
    pub(super) fn on_gap(&mut self, token: Token) {
        let gap = self.env.tuning.poll_gap;
        let now = self.now;
        if let Some(attempt) = &mut self.state.attempt
            && attempt.token == token
        {
            attempt.phase.put_to(now.after(gap));
        }
    }

    /// The lease is ours but is not sufficient for the first waiter: asks for one that is, with the same
    /// token.
    pub(super) fn ask_for_more(&mut self, grant: Grant) {
        let mut attempt = Attempt::new(grant.token, grant.kind);
        attempt.is_former = grant.is_former;
        attempt.entered = Some(grant.entered);
        attempt.handoffs_began = grant.handoffs_began;
        attempt.longest = grant.longest;
        attempt.linger = grant.linger;
        attempt.how = Some(grant.how);
        // Replies to acquire commands from before this lease are ignored: their blocks of fencing tokens may
        // lie below ours.
        attempt.last_seq = self.state.seq + 1;
        self.ask(&mut attempt);
        self.state.attempt = Some(Box::new(attempt));
    }

    /// A push for a token that no attempt of this process uses: whatever was granted to it is released.
    pub(super) fn on_unknown_grant(&mut self, token: Token) {
        if rules::unknown_grants_are_given_back() && !self.is_left_on_the_server(token) {
            self.compensate(token, LONGEST_CLAIM);
        }
    }

    /// Whether late replies and doubled grants must not release the lease: it was handed over, or it is lost and its
    /// body still runs. When that body ends, a release follows.
    pub(super) fn is_left_on_the_server(&self, token: Token) -> bool {
        let is_handed_over =
            rules::handed_over_leases_are_remembered() && self.env.releases.was_handed_over(token);
        is_handed_over || self.state.lost.iter().any(|lost| lost.token == token)
    }
}
