//! The outcomes of a process's operations.

use std::time::Duration;

use super::attempts::{Attempt, Purpose, Question, Step};
use super::config::MILLI;
use super::world::World;
use crate::backend::quorum::effect::RoundOutcome;
use crate::backend::{AcquireReply, OpResult, ReleaseReply, Remaining, RenewReply, Token};
use crate::engine::Queueing;
use crate::protocol::{Time, lease_end};

impl World {
    pub(super) fn done(&mut self, process: usize, round: u64, outcome: RoundOutcome) {
        self.note(|| format!("process {process}: round {round}: {outcome:?}"));
        match (self.processes[process].purposes.remove(&round), outcome) {
            (Some(Purpose::Ask(question)), RoundOutcome::Ask(result)) => {
                self.asked(process, round, question, result);
            }
            (Some(Purpose::Renew { key, token, sent }), RoundOutcome::Renew(result)) => {
                self.renewed(process, key, token, sent, result);
            }
            (Some(Purpose::Release { key, token, until, .. }), RoundOutcome::Release(Err(_)))
                if self.processes[process].clock.at(self.now) < until =>
            {
                self.later(process, 50 * MILLI, Step::LeaveAgain { key, token, until });
            }
            (
                Some(Purpose::Release { key, closed: Some(closed), .. }),
                RoundOutcome::Release(Ok(ReleaseReply::Released { .. })),
            ) if self.cfg.is_calm() => {
                self.keys[key].closed_until = closed;
            }
            (Some(Purpose::Release { .. }), RoundOutcome::Release(_)) | (None, _) => {}
            (Some(_), outcome) => self.fail(format!("odd: process {process} got {outcome:?}")),
        }
    }

    fn asked(&mut self, process: usize, round: u64, question: Question, result: OpResult<AcquireReply>) {
        let Question { key, token, sent, queueing } = question;
        let now = self.processes[process].clock.at(self.now);
        let Some(attempt) = self.attempt(process, key, token) else {
            let in_vain = match result {
                Ok(AcquireReply::Acquired { .. } | AcquireReply::AlreadyHeld { .. }) => true,
                Ok(AcquireReply::Busy { .. }) => queueing == Queueing::May,
                _ => false,
            };
            if in_vain {
                let long = Duration::from_millis(3 * self.cfg.ttl * u64::from(self.cfg.spread));
                self.leave(process, key, token, now.after(long), None);
            }
            return;
        };
        let (ttl, fences) = (attempt.ttl(), attempt.fences);
        match (result, attempt.held) {
            (Ok(AcquireReply::Acquired { fence, .. } | AcquireReply::AlreadyHeld { fence, .. }), None) => {
                if lease_end(sent, ttl) <= now {
                    self.processes[process].wanted[key] += 1;
                    return self.end(process, key, token);
                }
                self.acquired(process, round, question, &attempt, fence);
            }
            (Ok(AcquireReply::AlreadyHeld { fence, .. }), Some(_)) => {
                self.extend(process, key, token, lease_end(sent, ttl));
                if let Some(first) = fence {
                    self.uses_fences(process, key, token, first, fences);
                }
            }
            // This round was executed before another round acquired the lock.
            (Ok(AcquireReply::Acquired { .. }), Some((_, by))) if round < by => {}
            // As in the engine, the lock is lost and released.
            (Ok(AcquireReply::Acquired { .. }), Some(_)) => {
                self.is_lost(process, key, token);
                self.end(process, key, token);
            }
            (Ok(AcquireReply::Busy { remaining, .. }), None) => {
                self.busy(process, question, &attempt, remaining);
            }
            (Err(_), None) => {
                let delay = self.rng.u64(10 * MILLI..100 * MILLI);
                self.plan_to_ask(process, key, token, delay);
            }
            (Ok(other), None) => {
                self.fail(format!("odd: process {process} asked for k{key} and got {other:?}"))
            }
            (_, Some(_)) => {}
        }
    }

    /// Another process has the lock.
    fn busy(&mut self, process: usize, question: Question, attempt: &Attempt, remaining: Remaining) {
        let Question { key, token, queueing, .. } = question;
        self.stats.busy += 1;
        self.processes[process].busy_at[key] = Some(self.now);
        if attempt.once {
            self.processes[process].attempts[key] = None;
            return self.next(process, key);
        }
        if queueing == Queueing::Never {
            return self.ask(process, key, token);
        }
        let heartbeat = attempt.ttl.min(3_000) * MILLI * 4 / 5;
        let jitter = self.rng.u64(0..50 * MILLI);
        let left = match remaining {
            Remaining::For(left) => u64::try_from(left.as_nanos()).unwrap_or(u64::MAX),
            Remaining::Unknown | Remaining::Forever => heartbeat,
        };
        self.plan_to_ask(process, key, token, heartbeat.min(left.saturating_add(jitter)));
    }

    /// A lock was acquired in time.
    fn acquired(
        &mut self,
        process: usize,
        round: u64,
        question: Question,
        attempt: &Attempt,
        fence: Option<u64>,
    ) {
        let Question { key, token, sent, .. } = question;
        let now = self.processes[process].clock.at(self.now);
        let deadline = lease_end(sent, attempt.ttl());
        self.stats.acquired += 1;
        if let Some(attempt) = &mut self.processes[process].attempts[key] {
            attempt.held = Some((deadline, round));
        }
        self.may_be_held_for(process, key, token);
        self.note(|| format!("process {process}: k{key} is mine until {deadline:?}"));
        // A request from before a forced release does not hold the lock.
        if self.processes[process].clock.when(sent) > self.keys[key].forced {
            self.believes(process, key, token, deadline);
        }
        if let Some(first) = fence {
            self.uses_fences(process, key, token, first, attempt.fences);
            if self.chance(self.cfg.more) {
                let after = self.rng.u64(0..5 * MILLI);
                self.later(process, after, Step::More { key, token });
            }
        }
        self.at_deadline(process, key, token, deadline);
        let hold = self.kernel.rng.u64(0..=self.cfg.longest_hold) * MILLI;
        self.later(process, hold, Step::Release { key, token });
        if attempt.renews {
            // As in the engine, a lease that was acquired late has less time left.
            let left = u64::try_from(deadline.duration_since(now).as_nanos()).unwrap_or(0);
            let ttl = attempt.ttl * MILLI;
            let after = left.saturating_sub(ttl * 2 / 3).max((ttl / 3).min(100 * MILLI));
            self.later(process, after, Step::Renew { key, token });
        }
    }

    fn renewed(
        &mut self,
        process: usize,
        key: usize,
        token: Token,
        sent: Time,
        result: OpResult<RenewReply>,
    ) {
        match result {
            Ok(RenewReply::Renewed { .. }) => {
                if let Some(attempt) = self.attempt(process, key, token) {
                    self.extend(process, key, token, lease_end(sent, attempt.ttl()));
                }
            }
            Ok(RenewReply::NotHeld) => self.lose(process, key, token),
            _ => {}
        }
    }

    fn extend(&mut self, process: usize, key: usize, token: Token, until: Time) {
        let now = self.processes[process].clock.at(self.now);
        if let Some(attempt) = &mut self.processes[process].attempts[key]
            && attempt.token == token
            && let Some((deadline, _)) = &mut attempt.held
            && *deadline > now
        {
            *deadline = until.max(*deadline);
            self.extends(process, key, token, until);
        }
    }

    fn lose(&mut self, process: usize, key: usize, token: Token) {
        if self.attempt(process, key, token).is_some_and(|attempt| attempt.held.is_some()) {
            self.is_lost(process, key, token);
            if self.rng.bool() {
                return self.end(process, key, token);
            }
            // A token without a majority does not have to be released.
            self.gives_up(process, key, token);
            self.processes[process].attempts[key] = None;
            self.next(process, key);
        }
    }

    fn is_lost(&mut self, process: usize, key: usize, token: Token) {
        self.stats.lost += 1;
        self.note(|| format!("process {process}: k{key} is lost: {token:?} is not ours"));
        if let Some(attempt) = self.attempt(process, key, token) {
            self.judge_loss(process, key, token, attempt.ttl);
        }
    }
}
