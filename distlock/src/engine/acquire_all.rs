//! Several keys at once: one command takes them, in order, as far as they are free.
//!
//! Nothing may be held or awaited unless every key in front of it is held: that is why callers who name keys
//! in different orders cannot deadlock. So the first key *leads*: its attempt is one as ever. Each key behind
//! it *follows*: its attempt stands for the one command and never asks by itself. What the command does not
//! decide for a follower (it ended before it, failed, or was not answered in time) ends the request there as
//! [`Outcome::Skipped`], with a `leave` if something may have been applied. Whoever made the request goes
//! on from the first key that was not acquired.

use std::sync::Arc;

use super::attempt::Attempt;
use super::cell::Ticket;
use super::key::Step;
use super::waiters::Waiter;
use super::{Context, Effect, Effects, Engine, LONGEST_CLAIM, Outcome, Purpose, Want, lock};
use crate::protocol::{AcquireMode, Failure, Op, OpResult, Reply, Time, Token, mutated};

/// What an attempt is in a command for several keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchRole {
    Leader,
    /// Made for this request only.
    Follower(Ticket),
}

/// Whose turn it is after the answer to a command for several keys.
pub(super) enum Handled {
    /// The answer means what it means for one key.
    AsOneKey(Box<Attempt>),
    /// Everything was done; this is left.
    Entirely(Option<Box<Attempt>>),
}

impl<W> Engine<W> {
    /// Requests as many of `keys`, which are sorted and without duplicates, as can be taken by one command
    /// now: from the first on, at least that one. Each request, one for each ticket, ends as those of
    /// [`Engine::acquire`] do, all but the first possibly as [`Outcome::Skipped`]. None is acquired unless
    /// all before it are.
    pub(crate) fn acquire_all(
        &self,
        now: Time,
        keys: &[Arc<str>],
        want: &Want,
        mut who: impl FnMut() -> W,
    ) -> (Vec<Ticket>, Effects<W>) {
        let is_free = |key: &&Arc<str>| lock(self.shard(key)).is_untouched(now, key);
        let free = if want.fenced { 0 } else { keys.iter().take_while(is_free).count() };
        let mut tickets = Vec::with_capacity(free.max(1));
        let mut batch = Vec::with_capacity(free);
        let mut effects = Effects { list: Vec::new(), rearm: false };
        for key in keys.iter().take(if free > 1 { free } else { 0 }) {
            let leads = tickets.is_empty();
            let (ticket, more) =
                self.enter(key, |shard, out| shard.acquire_part(now, key, leads, want, &mut who, out));
            effects.rearm |= more.rearm;
            for effect in more.list {
                match effect {
                    Effect::Send(context, op) => batch.push((context, op)),
                    other => effects.list.push(other),
                }
            }
            let Some(ticket) = ticket else { break };
            tickets.push(ticket);
        }
        if let (true, Some(key)) = (tickets.is_empty(), keys.first()) {
            let (ticket, more) = self.acquire(now, key, want.clone(), who());
            tickets.push(ticket);
            effects.join(more);
        }
        match batch.len() {
            0 => {}
            1 => effects.list.extend(batch.into_iter().map(|(context, op)| Effect::Send(context, op))),
            _ => effects.list.push(Effect::SendAcquireAll(batch)),
        }
        (tickets, effects)
    }

    /// A command for several keys was answered, or failed.
    pub(crate) fn on_acquire_all_reply(&self, now: Time, answers: Vec<(Context, OpResult)>) -> Effects<W> {
        let mut effects = Effects { list: Vec::new(), rearm: false };
        let mut all_held = true;
        for (context, result) in answers {
            let (key, token) = (context.key.clone(), context.token);
            if !all_held && matches!(&result, Ok(reply) if *reply != Reply::Skipped) {
                // A key in front of it was taken, and is not held here any more.
                let (withdrawn, more) = self.enter(&key, |shard, out| shard.withdraw(now, &key, token, out));
                effects.join(more);
                if withdrawn {
                    continue;
                }
            }
            let acquired = matches!(&result, Ok(reply) if reply.is_acquired());
            effects.join(self.reply(now, context, result).1);
            all_held &= acquired && lock(self.shard(&key)).holds(&key, token);
        }
        effects
    }
}

impl<W> Step<'_, W> {
    /// Requests this key as part of a command for several. `None`: somebody was faster in this process.
    pub(super) fn acquire_part(
        &mut self,
        leads: bool,
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
        attempt.batch_role = Some(if leads { BatchRole::Leader } else { BatchRole::Follower(ticket) });
        let (token, claim) = (attempt.token, LONGEST_CLAIM.min(ttl));
        let purpose = Purpose::Acquire { seq: self.number(&mut attempt), ttl, fences: 0, queues: false };
        self.send(token, purpose, Op::Acquire { token, kind, ttl, claim, mode: AcquireMode::Try, fences: 0 });
        self.state.attempt = Some(Box::new(attempt));
        Some(ticket)
    }

    /// The answer to a command for several keys.
    pub(super) fn on_batch_reply(
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
                self.leave_out(&attempt, ticket, !nothing_done);
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
    pub(super) fn withdraw(&mut self, token: Token) -> bool {
        let followed = self.state.attempt.take_if(|attempt| {
            attempt.token == token && matches!(attempt.batch_role, Some(BatchRole::Follower(_)))
        });
        let Some(attempt) = followed else { return false };
        if let Some(BatchRole::Follower(ticket)) = attempt.batch_role {
            self.leave_out(&attempt, ticket, attempt.may_be_applied());
        }
        self.serve_here();
        true
    }

    fn leave_out(&mut self, attempt: &Attempt, ticket: Ticket, may_be_applied: bool) {
        if may_be_applied && !mutated!(FollowerNotCompensated) {
            self.compensate(attempt.token, attempt.longest);
        }
        if let Some(waiter) = self.state.waiters.remove(ticket) {
            self.complete(waiter, Outcome::Skipped);
        }
    }
}
