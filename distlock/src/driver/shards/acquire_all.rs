//! Requests for several keys: one command acquires them, in order, up to the first that is not free.

use std::sync::Arc;

use super::{Effects, Shards};
use crate::engine::{AcquirePurpose, Answer, BatchRole, Command, Context, Effect, Want};
use crate::lease_cell::Ticket;
use crate::protocol::{AcquireReply, BatchReply, OpResult, Time, op};

/// The result of one key in a command for several.
pub(crate) type BatchAnswer = (Context, AcquirePurpose, OpResult<BatchReply>);

impl<W> Shards<W> {
    /// Requests as many of `keys`, which are sorted and without duplicates, as one command can acquire now. It begins
    /// with the first key, and requests at least that one. Each request, one for each ticket, ends like one of
    /// [`Step::acquire`](crate::engine::Step::acquire). All except the first may also end as
    /// [`Skipped`](crate::engine::Outcome::Skipped). A key is acquired only if all earlier keys are.
    pub(crate) fn acquire_all(
        &self,
        now: Time,
        keys: &[Arc<str>],
        want: &Want,
        mut who: impl FnMut() -> W,
    ) -> (Vec<Ticket>, Effects<W>) {
        let is_free = |key: &&Arc<str>| self.look(key, |machine| machine.is_untouched(now, key));
        let free = if want.fenced { 0 } else { keys.iter().take_while(is_free).count() };
        let mut tickets = Vec::with_capacity(free.max(1));
        let mut batch = Vec::with_capacity(free);
        let mut effects = Effects::default();
        for key in keys.iter().take(if free > 1 { free } else { 0 }) {
            let leads = tickets.is_empty();
            let role = |ticket| if leads { BatchRole::Leader } else { BatchRole::Follower(ticket) };
            let (ticket, more) = self.on_key(now, key, |step| step.acquire_part(role, want, &mut who));
            effects.rearm |= more.rearm;
            for effect in more.list {
                match effect {
                    Effect::Send(context, Command::Acquire(asked, op::Ask::Full(op))) => {
                        batch.push((context, asked, op));
                    }
                    other => effects.list.push(other),
                }
            }
            let Some(ticket) = ticket else { break };
            tickets.push(ticket);
        }
        if let (true, Some(key)) = (tickets.is_empty(), keys.first()) {
            let (ticket, more) = self.on_key(now, key, |step| step.acquire(want.clone(), who()));
            tickets.push(ticket);
            effects.join(more);
        }
        if batch.len() > 1 {
            effects.list.push(Effect::SendAcquireAll(batch));
        } else {
            let alone =
                |(context, asked, op)| Effect::Send(context, Command::Acquire(asked, op::Ask::Full(op)));
            effects.list.extend(batch.into_iter().map(alone));
        }
        (tickets, effects)
    }

    /// A command for several keys got its reply, or failed.
    pub(crate) fn on_acquire_all_reply(&self, now: Time, answers: Vec<BatchAnswer>) -> Effects<W> {
        let mut effects = Effects::default();
        let mut all_held = true;
        for (context, asked, result) in answers {
            let (key, token) = (context.key.clone(), context.token);
            if !all_held && matches!(&result, Ok(BatchReply::Tried(_))) {
                // An earlier key was acquired, but is no longer held here.
                let (withdrawn, more) = self.on_key(now, &key, |step| step.withdraw(token));
                effects.join(more);
                if withdrawn {
                    continue;
                }
            }
            let tried = result.as_ref().ok().and_then(BatchReply::tried);
            let acquired = tried.is_some_and(AcquireReply::is_acquired);
            effects.join(self.reply(now, context, Answer::AcquireInBatch(asked, result)).1);
            all_held &= acquired && self.look(&key, |machine| machine.holds(&key, token));
        }
        effects
    }
}
