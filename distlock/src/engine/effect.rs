//! The effects of an event: actions that the engine requests, and the result for the caller.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::Outcome;
use crate::error::LostReason;
use crate::lease_cell::{LeaseCell, Ticket};
use crate::protocol::{
    AcquireReply, BatchReply, LockKind, OpResult, ReleaseReply, RenewReply, ServerTime, StoreError, Time,
    Token, op,
};

/// Whether a command may leave an entry in the queue on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queueing {
    May,
    Never,
}

/// What a command that asks for a lock does about a holder that keeps it without a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// It tells the holder, which then releases the lock.
    May,
    Never,
}

/// A command's place in the engine: it comes back with the command's answer. `sent` is an instant before it is
/// sent.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) key: Arc<str>,
    pub(crate) token: Token,
    pub(crate) sent: Time,
}

/// Why a lock is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AcquirePurpose {
    pub(crate) seq: u64,
    pub(crate) ttl: Duration,
    pub(crate) fences: u32,
    pub(crate) queueing: Queueing,
    pub(crate) telling: Telling,
}

/// Why a token is released.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReleasePurpose {
    pub(crate) sends: u32,
    /// Until when the lease was certainly ours; `None` if it may never have been.
    pub(crate) deadline: Option<Time>,
    /// When nothing of the lease can be left on the server; `None`: not while the session lives.
    pub(crate) until: Option<Time>,
    /// The key stays taken until then (`min_hold`).
    pub(crate) keep_until: Option<Time>,
}

/// Why a lease is renewed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RenewPurpose {
    /// The holder that asked for the renewal; `None` for a renewal by timer.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) ttl: Duration,
}

/// A command to send, and its purpose.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    Acquire(AcquirePurpose, op::Ask),
    /// Answered as an acquisition.
    Replace(AcquirePurpose, op::Replace),
    Release(ReleasePurpose, op::Release),
    Renew(RenewPurpose, op::Renew),
}

/// The result of a command, and its purpose.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Acquire(AcquirePurpose, OpResult<AcquireReply>),
    /// For one of several keys in a command.
    AcquireInBatch(AcquirePurpose, OpResult<BatchReply>),
    Release(ReleasePurpose, OpResult<ReleaseReply>),
    Renew(RenewPurpose, OpResult<RenewReply>),
}

impl Answer {
    /// `Ok` if the store has executed the command, whatever its reply says.
    pub(crate) fn done(&self) -> Result<(), &StoreError> {
        match self {
            Answer::Acquire(_, result) => result.as_ref().map(drop),
            Answer::AcquireInBatch(_, result) => result.as_ref().map(drop),
            Answer::Release(_, result) => result.as_ref().map(drop),
            Answer::Renew(_, result) => result.as_ref().map(drop),
        }
    }

    /// The time of the reply on the server's clock, if it tells one.
    pub(crate) fn server_time(&self) -> Option<ServerTime> {
        match self {
            Answer::Acquire(_, Ok(reply)) => reply.server_time(),
            Answer::AcquireInBatch(_, Ok(reply)) => reply.tried()?.server_time(),
            Answer::Renew(_, Ok(RenewReply::Renewed { server_time })) => Some(*server_time),
            Answer::Release(..) | Answer::Renew(_, Ok(RenewReply::NotHeld)) => None,
            Answer::Acquire(_, Err(_)) | Answer::AcquireInBatch(_, Err(_)) | Answer::Renew(_, Err(_)) => None,
        }
    }
}

/// What to do after an event. `W` identifies the caller of a request.
#[derive(Debug)]
pub(crate) enum Effect<W> {
    Send(Context, Command),
    /// One command for several keys; its results come back together.
    SendAcquireAll(Vec<(Context, AcquirePurpose, op::Acquire)>),
    Done(W, Outcome),
    /// A hold has ended without a release: wake its listeners and log the loss.
    Lost(Arc<LeaseCell>, LostReason),
    /// A lease has ended that its caller was given and has not taken up. The caller had it for `after`.
    NotTaken {
        cell: Arc<LeaseCell>,
        after: Duration,
    },
    /// The lease continues; when that was confirmed, `left` of it remained.
    Renewed {
        cell: Arc<LeaseCell>,
        left: Duration,
    },
    /// The store has said that another client holds the key, and this process waits in its queue or polls: report it to
    /// observers. `waiting` requests wait here; the label is that of the first.
    Queued {
        key: Arc<str>,
        label: Cow<'static, str>,
        kind: LockKind,
        waiting: usize,
    },
}

/// Effects, in their order. Nearly always there is only one, which needs no allocation.
#[derive(Debug)]
pub(crate) struct EffectList<W> {
    first: Option<Effect<W>>,
    rest: VecDeque<Effect<W>>,
}

impl<W> Default for EffectList<W> {
    fn default() -> Self {
        EffectList { first: None, rest: VecDeque::new() }
    }
}

impl<W> EffectList<W> {
    pub(crate) fn push(&mut self, effect: Effect<W>) {
        if self.is_empty() {
            self.first = Some(effect);
        } else {
            self.rest.push_back(effect);
        }
    }

    /// Adds the effects of `more` at the end.
    pub(crate) fn append(&mut self, more: EffectList<W>) {
        if self.is_empty() {
            *self = more;
        } else {
            self.extend(more);
        }
    }

    fn is_empty(&self) -> bool {
        self.first.is_none() && self.rest.is_empty()
    }

    pub(crate) fn pop_front(&mut self) -> Option<Effect<W>> {
        self.first.take().or_else(|| self.rest.pop_front())
    }
}

impl<W> Extend<Effect<W>> for EffectList<W> {
    fn extend<I: IntoIterator<Item = Effect<W>>>(&mut self, effects: I) {
        effects.into_iter().for_each(|effect| self.push(effect));
    }
}

/// Takes the effects out.
impl<W> Iterator for EffectList<W> {
    type Item = Effect<W>;

    fn next(&mut self) -> Option<Effect<W>> {
        self.pop_front()
    }
}

/// What the reply to a release or to an explicit extension means for its caller. `Ok` also if no caller waits for it.
pub(crate) type Confirmation = Result<(), Failed>;

/// The reason why a release or an extension failed.
#[derive(Clone, Debug)]
pub(crate) enum Failed {
    /// The lock had been lost before the command.
    Lost(LostReason),
    /// There was no conclusive reply. A release is repeated when the server is reachable.
    Unconfirmed(StoreError),
}

/// What happened to a hold when its holder released it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseStarted {
    /// Handed on inside this process: no reply to wait for.
    HandedOn,
    /// A release command is among the effects. Its reply is the confirmation.
    Sent,
    /// The lock was lost before. A release command may be among the effects.
    WasLost(LostReason),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_come_out_in_the_order_in_which_they_went_in() {
        let number = |effect: Effect<u32>| match effect {
            Effect::Done(number, Outcome::Closed) => number,
            other => panic!("{other:?}"),
        };
        let mut list = EffectList::default();
        list.extend((0..3).map(|number| Effect::Done(number, Outcome::Closed)));
        assert_eq!(list.pop_front().map(number), Some(0));
        list.push(Effect::Done(3, Outcome::Closed));
        assert_eq!(list.pop_front().map(number), Some(1));
        assert_eq!(list.map(number).collect::<Vec<_>>(), [2, 3]);
    }
}
