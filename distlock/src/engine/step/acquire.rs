//! Requests a lock from the server.

use std::time::Duration;

use super::Step;
use crate::engine::rules;
use crate::engine::state::{Attempt, BatchRole, Linger, Phase};
use crate::engine::{AcquirePurpose, Command, LONGEST_CLAIM, Queueing, Telling};
use crate::protocol::{AcquireMode, LockKind, Notifications, StoreError, When, op};

impl<W> Step<'_, W> {
    /// Makes sure that the first waiter gets the lock, now or later: through a lease of this process that it
    /// can share, or through an attempt on the server. An attempt that no longer serves the first waiter is
    /// given up: its waiter has left, or the one at the front wants another kind of lock, to replace a holder,
    /// or its own lease.
    pub(super) fn serve_here(&mut self) {
        self.take_up();
        self.join_readers();
        let mut former = None;
        if let Some(attempt) = &self.state.attempt
            && !self.state.waiters.front().is_some_and(|head| attempt.serves(&head.want))
        {
            former = Some((attempt.silent, attempt.cause.clone()));
            self.abandon_attempt();
        }
        let kept_out = self.state.leases.iter().any(|lease| lease.grant.kind == LockKind::Exclusive);
        if self.state.attempt.is_none() && !kept_out {
            self.first_attempt();
        }
        // If the former attempt got no reply, the server has been silent since then for the waiters that
        // remain.
        if let (Some((Some(silent), cause)), Some(attempt)) = (former, &mut self.state.attempt)
            && attempt.silent.is_some()
        {
            attempt.silent = Some(silent);
            attempt.cause = cause;
        }
    }

    fn first_attempt(&mut self) {
        let Some(head) = self.state.waiters.front() else { return };
        if let Some(end) = self.env.hints.gap_ends(self.key, self.now)
            && !rules::asks_in_a_gap(&head.want)
        {
            return self.next_attempt(Some(end.duration_since(self.now)));
        }
        let Some(mut attempt) = self.attempt_for_first() else { return };
        self.ask_first(&mut attempt);
        self.state.attempt = Some(Box::new(attempt));
    }

    /// A new attempt on behalf of the first waiter.
    pub(super) fn attempt_for_first(&mut self) -> Option<Attempt> {
        let head = self.state.waiters.front()?;
        let (kind, replaces) = (head.want.kind, head.want.replaces.clone());
        Some(Attempt { replaces, ..Attempt::new(self.attempt_token(), kind) })
    }

    /// Asks with the cheapest command that is sufficient.
    pub(super) fn ask_first(&mut self, attempt: &mut Attempt) {
        let alone = self.state.leases.is_empty() && self.state.waiters.len() == 1;
        let plain = attempt.kind == LockKind::Exclusive
            && alone
            && self.state.waiters.fenced() == 0
            && attempt.token.linger().is_none()
            && attempt.replaces.is_none()
            && !self.env.hints.is_contended(self.key, self.now);
        if plain { self.ask_plainly(attempt) } else { self.ask(attempt) }
    }

    /// Called after an exclusive lease of ours ended while others wait here.
    pub(super) fn next_attempt(&mut self, delay: Option<Duration>) {
        self.env.hints.contended(self.key, self.now);
        let Some(delay) = delay else { return self.serve_here() };
        let Some(mut attempt) = self.attempt_for_first() else { return };
        attempt.replaces = rules::replaces_after_a_pause(attempt.replaces);
        attempt.phase = Phase::Backoff { at: When::At(self.now.after(delay)) };
        self.state.attempt = Some(Box::new(attempt));
    }

    fn ask_plainly(&mut self, attempt: &mut Attempt) {
        let Some(head) = self.state.waiters.front() else { return };
        let ttl = head.want.ttl;
        attempt.longest = attempt.longest.max(ttl);
        let (queueing, telling) = (Queueing::Never, Telling::Never);
        let purpose =
            AcquirePurpose { seq: self.number(attempt, queueing), ttl, fences: 0, queueing, telling };
        let op = op::TryAcquire { token: attempt.token, ttl };
        self.send(attempt.token, Command::Acquire(purpose, op.into()));
    }

    /// Asks for the lock on behalf of the first waiter. This one command acquires, queues, keeps the queue
    /// entry alive, and claims a grant.
    pub(super) fn ask(&mut self, attempt: &mut Attempt) {
        let Some(head) = self.state.waiters.front() else { return };
        let ttl = head.want.ttl;
        // An existing queue entry is kept up to date even if no waiter needs it: acquiring the lock
        // removes it.
        let is_queued = attempt.traces.is_queued();
        let may_queue = attempt.replaces.is_none() && (self.state.waiters.any_patient() || is_queued);
        let queueing = if may_queue { Queueing::May } else { Queueing::Never };
        let mode = match (queueing, self.env.link.pushes, is_queued) {
            (Queueing::Never, _, _) => AcquireMode::Try,
            (Queueing::May, Notifications::On, false) => AcquireMode::Wait,
            (Queueing::May, Notifications::On, true) => AcquireMode::WaitAgain,
            (Queueing::May, Notifications::Off, false) => AcquireMode::Poll,
            (Queueing::May, Notifications::Off, true) => AcquireMode::PollAgain,
        };
        let fences = match self.state.waiters.fenced() {
            0 => 0,
            // For the sections that come back.
            _ if attempt.linger != Linger::Never => self.env.tuning.most_fences,
            waiting => waiting.saturating_add(1).min(self.env.tuning.most_fences),
        };
        let claim = LONGEST_CLAIM.min(ttl);
        attempt.claim = rules::certain_claim(is_queued.then_some(attempt.claim), claim);
        attempt.longest = attempt.longest.max(ttl);
        attempt.fences = Some(rules::certain_fences(attempt.fences, fences));
        let telling = Telling::May;
        let purpose = AcquirePurpose { seq: self.number(attempt, queueing), ttl, fences, queueing, telling };
        let (token, kind) = (attempt.token, attempt.kind);
        let command = match attempt.replaces.clone() {
            Some(holder) => Command::Replace(purpose, op::Replace { token, ttl, fences, holder }),
            None => {
                let op = op::Acquire { token, kind, ttl, claim, mode, fences };
                Command::Acquire(purpose, op.into())
            }
        };
        self.send(token, command);
    }

    pub(super) fn number(&mut self, attempt: &mut Attempt, queueing: Queueing) -> u64 {
        self.state.seq += 1;
        attempt.phase = Phase::InFlight { seq: self.state.seq, sent: self.now, ask_at: None };
        attempt.traces.sent(queueing);
        if attempt.silent.is_none() {
            attempt.silent = Some(self.now);
        }
        self.state.seq
    }

    /// The attempt has lost its last waiter, or a take-over comes before that: cancels it, and releases the entries
    /// that it may have left on the server.
    pub(super) fn abandon_attempt(&mut self) {
        let Some(attempt) = self.state.attempt.take() else { return };
        self.undo(&attempt);
        if let Some(BatchRole::Follower(ticket)) = attempt.batch_role
            && rules::followers_end_with_their_attempt()
        {
            self.leave_out(ticket);
        }
    }

    pub(in crate::engine) fn attempt_is_due(&mut self) {
        let Some(attempt) = &self.state.attempt else { return };
        if attempt.next_ask(&self.env.link).is_none_or(|at| at > self.now) {
            return;
        }
        if attempt.follows() {
            self.withdraw(attempt.token);
            return;
        }
        self.with_attempt(|step, mut attempt| {
            step.ask(&mut attempt);
            Some(attempt)
        });
    }

    /// Asks again after a new link, or after a time in which pushes may have been missed.
    pub(in crate::engine) fn ask_afresh(&mut self) {
        if let Some(attempt) = &self.state.attempt
            && attempt.follows()
        {
            self.withdraw(attempt.token);
            return;
        }
        self.with_attempt(|step, mut attempt| {
            if rules::clock_is_forgotten_with_the_link() {
                attempt.queued_times = None;
            }
            // During a gap the attempt has sent nothing. It asks when its own timer fires.
            if attempt.may_be_applied() || attempt.silent.is_some() {
                step.ask(&mut attempt);
            }
            Some(attempt)
        });
    }

    /// The link broke: unanswered commands may have been applied.
    pub(in crate::engine) fn attempt_lost_link(&mut self, cause: &StoreError) {
        if let Some(attempt) = &mut self.state.attempt {
            if rules::clock_is_forgotten_with_the_link() {
                attempt.queued_times = None;
            }
            attempt.cause = Some(cause.clone());
            attempt.silent.get_or_insert(self.now);
        }
    }

    pub(super) fn forget_pair(&mut self) {
        if let Some(attempt) = &mut self.state.attempt {
            attempt.queued_times = None;
        }
    }

    /// Takes the attempt out, runs `step` on it, and puts back the rest of it.
    pub(super) fn with_attempt(
        &mut self,
        change: impl FnOnce(&mut Self, Box<Attempt>) -> Option<Box<Attempt>>,
    ) {
        if let Some(attempt) = self.state.attempt.take()
            && let Some(attempt) = change(self, attempt)
        {
            self.state.attempt = Some(attempt);
        }
    }
}
