//! Several keys at once: one command acquires them, in order, up to the first that is not free.
//!
//! A key may be held or awaited only if every key before it is held. So callers that name keys in different orders
//! cannot deadlock. So the first key *leads*: its attempt is an ordinary one. Each key after it *follows*: its attempt
//! is a part of this command and never sends a separate command. If the command does not decide a follower (it ended
//! before that key, failed, or got no reply in time), the request for that key ends as [`Outcome::Skipped`], with a
//! release if something may have been applied. The caller continues from the first key that was not acquired.

use super::Step;
use crate::engine::rules;
use crate::engine::state::{Attempt, BatchRole, Waiter};
use crate::engine::{AcquirePurpose, Command, Context, LONGEST_CLAIM, Outcome, Queueing, Telling, Want};
use crate::lease_cell::Ticket;
use crate::protocol::{AcquireMode, AcquireReply, Failure, OpResult, Time, Token, may_be_applied, op};

/// How the reply to a command for several keys is handled.
pub(crate) enum Handled {
    /// The reply is handled like one for a single key.
    AsOneKey(Box<Attempt>),
    /// Completely handled. Contains the rest of the attempt.
    Entirely(Option<Box<Attempt>>),
}

impl<W> Step<'_, W> {
    /// Requests this key as one of several in a command. `None`: another request of this process came first.
    pub(crate) fn acquire_part(
        &mut self,
        role: impl FnOnce(Ticket) -> BatchRole,
        want: &Want,
        who: impl FnOnce() -> W,
    ) -> Option<Ticket> {
        if self.env.refusal.is_some() || !self.state.is_idle() {
            return None;
        }
        let ticket = self.env.next_ticket(want);
        let (kind, ttl) = (want.kind, want.ttl);
        self.state.waiters.push(Waiter { ticket, waiting_since: self.now, want: want.clone(), who: who() });
        let mut attempt = Attempt::new(self.next_token(), kind);
        attempt.longest = ttl;
        attempt.batch_role = Some(role(ticket));
        let (token, claim) = (attempt.token, LONGEST_CLAIM.min(ttl));
        let (queueing, telling) = (Queueing::Never, Telling::May);
        let purpose =
            AcquirePurpose { seq: self.number(&mut attempt, queueing), ttl, fences: 0, queueing, telling };
        let op = op::Acquire { token, kind, ttl, claim, mode: AcquireMode::Try, fences: 0 };
        self.send(token, Command::Acquire(purpose, op.into()));
        self.state.attempt = Some(Box::new(attempt));
        Some(ticket)
    }

    /// The reply to a command for several keys.
    pub(super) fn on_batch_reply(
        &mut self,
        batch_role: BatchRole,
        mut attempt: Box<Attempt>,
        deadline: Time,
        result: &OpResult<AcquireReply>,
    ) -> Handled {
        let lasts = deadline > self.now;
        match (batch_role, result) {
            (
                BatchRole::Follower(_),
                Ok(AcquireReply::Acquired { .. } | AcquireReply::AlreadyHeld { .. }),
            ) if lasts => Handled::AsOneKey(attempt),
            (_, Ok(AcquireReply::Busy { .. } | AcquireReply::WrongKind { .. } | AcquireReply::NotHeld)) => {
                Handled::AsOneKey(attempt)
            }
            (BatchRole::Follower(ticket), result) => {
                // A command that was refused permanently may have acquired some keys before it stopped.
                let nothing_done = result.as_ref().is_err_and(|error| !may_be_applied(error));
                if !nothing_done {
                    self.compensate_follower(&attempt);
                }
                self.leave_out(ticket);
                Handled::Entirely(None)
            }
            // The server may allow the command for one key although it refuses the one for several. Its reply
            // also tells which key is the cause.
            (BatchRole::Leader, Err(error)) if matches!(error.kind, Failure::Refused | Failure::Later) => {
                self.ask_first(&mut attempt);
                Handled::Entirely(Some(attempt))
            }
            (BatchRole::Leader, _) => Handled::AsOneKey(attempt),
        }
    }

    /// The command for several keys ended at a key in front of this one.
    pub(super) fn on_skipped(&mut self, context: &Context, asked: AcquirePurpose) {
        if self.state.attempt.as_ref().is_some_and(|attempt| attempt.token == context.token) {
            self.with_attempt(|step, mut attempt| {
                if !attempt.takes_in(asked, None) {
                    return Some(attempt);
                }
                match attempt.batch_role.take() {
                    Some(BatchRole::Follower(ticket)) => {
                        step.leave_out(ticket);
                        return None;
                    }
                    Some(BatchRole::Leader) => step.ask_first(&mut attempt),
                    // A reply to a later command came first, and made this one outdated.
                    None => {}
                }
                Some(attempt)
            });
            self.serve_here();
        }
    }

    /// Stops waiting for the command for several keys. False: `token` does not wait for it.
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

    pub(super) fn leave_out(&mut self, ticket: Ticket) {
        if let Some(waiter) = self.state.waiters.remove(ticket) {
            self.complete(waiter, Outcome::Skipped);
        }
    }
}
