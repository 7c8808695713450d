//! Several keys at once: one command takes them, in order, as far as they are free.
//!
//! Nothing may be held or awaited unless every key in front of it is held: that is why callers who name keys
//! in different orders cannot deadlock. So the first key *leads*: its attempt is one as ever. Each key behind
//! it *follows*: its attempt stands for the one command and never asks by itself. What the command does not
//! decide for a follower (it ended before it, failed, or was not answered in time) ends the request there as
//! [`Outcome::Skipped`], with a `leave` if something may have been applied. Whoever made the request goes
//! on from the first key that was not acquired.

use super::Step;
use crate::engine::rules;
use crate::engine::state::{Attempt, BatchRole, Waiter};
use crate::engine::{InBatch, LONGEST_CLAIM, Outcome, Purpose, Queueing, Want};
use crate::lease_cell::Ticket;
use crate::protocol::{AcquireMode, Failure, Op, OpResult, Reply, Time, Token};

/// Whose turn it is after the answer to a command for several keys.
pub(crate) enum Handled {
    /// The answer means what it means for one key.
    AsOneKey(Box<Attempt>),
    /// Everything was done; this is left.
    Entirely(Option<Box<Attempt>>),
}

impl<W> Step<'_, W> {
    /// Requests this key as part of a command for several. `None`: somebody was faster in this process.
    pub(crate) fn acquire_part(
        &mut self,
        place: InBatch,
        want: &Want,
        who: impl FnOnce() -> W,
    ) -> Option<Ticket> {
        if self.env.refusal.is_some() || !self.state.is_idle() {
            return None;
        }
        let ticket = self.env.next_ticket();
        let (kind, ttl) = (want.kind, want.ttl);
        self.state.waiters.push(Waiter { ticket, waiting_since: self.now, want: want.clone(), who: who() });
        let mut attempt = Attempt::new(self.next_token(), kind);
        attempt.longest = ttl;
        attempt.batch_role = Some(match place {
            InBatch::First => BatchRole::Leader,
            InBatch::Behind => BatchRole::Follower(ticket),
        });
        let (token, claim) = (attempt.token, LONGEST_CLAIM.min(ttl));
        let queueing = Queueing::Never;
        let purpose = Purpose::Acquire { seq: self.number(&mut attempt, queueing), ttl, fences: 0, queueing };
        self.send(token, purpose, Op::Acquire { token, kind, ttl, claim, mode: AcquireMode::Try, fences: 0 });
        self.state.attempt = Some(Box::new(attempt));
        Some(ticket)
    }

    /// The answer to a command for several keys.
    pub(crate) fn on_batch_reply(
        &mut self,
        batch_role: BatchRole,
        mut attempt: Box<Attempt>,
        deadline: Time,
        result: &OpResult,
    ) -> Handled {
        let lasts = deadline > self.now;
        match (batch_role, result) {
            (BatchRole::Follower(_), Ok(Reply::Acquired { .. } | Reply::AlreadyHeld { .. })) if lasts => {
                Handled::AsOneKey(attempt)
            }
            (_, Ok(Reply::Busy { .. } | Reply::WrongKind { .. })) => Handled::AsOneKey(attempt),
            (BatchRole::Follower(ticket), result) => {
                // What is refused for good may have been refused after some keys were taken.
                let nothing_done = match result {
                    Ok(reply) => *reply == Reply::Skipped,
                    Err(error) => !error.may_be_applied(),
                };
                if !nothing_done {
                    self.compensate_follower(&attempt);
                }
                self.leave_out(ticket);
                Handled::Entirely(None)
            }
            // The command for this key alone may be allowed where that for several is not, and tells which
            // key is the matter.
            (BatchRole::Leader, Ok(Reply::Skipped)) => {
                self.ask_first(&mut attempt);
                Handled::Entirely(Some(attempt))
            }
            (BatchRole::Leader, Err(error)) if matches!(error.kind, Failure::Refused | Failure::Later) => {
                self.ask_first(&mut attempt);
                Handled::Entirely(Some(attempt))
            }
            (BatchRole::Leader, _) => Handled::AsOneKey(attempt),
        }
    }

    /// The command for several keys is not waited for any longer. False: it is not what `token` waits for.
    pub(crate) fn withdraw(&mut self, token: Token) -> bool {
        let followed = self.state.attempt.take_if(|attempt| {
            attempt.token == token && matches!(attempt.batch_role, Some(BatchRole::Follower(_)))
        });
        let Some(attempt) = followed else { return false };
        if let Some(BatchRole::Follower(ticket)) = attempt.batch_role {
            if attempt.may_be_applied() {
                self.compensate_follower(&attempt);
            }
            self.leave_out(ticket);
        }
        self.serve_here();
        true
    }

    fn compensate_follower(&mut self, attempt: &Attempt) {
        if rules::followers_are_compensated() {
            self.compensate(attempt.token, attempt.longest);
        }
    }

    fn leave_out(&mut self, ticket: Ticket) {
        if let Some(waiter) = self.state.waiters.remove(ticket) {
            self.complete(waiter, Outcome::Skipped);
        }
    }
}
