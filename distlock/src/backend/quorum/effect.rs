//! Events for the coordinator, and effects that it requests.

use std::sync::Arc;

use redis::Value;

use super::super::redis::{Encode, Encoding, Garbled, Note, Operation, Origin};
use super::super::{
    AcquireReply, FenceReply, LinkEvent, OpResult, Push, Pushes, ReleaseReply, RenewReply, ServerTime,
    StoreError, Token, op,
};
use crate::protocol::Time;

/// The time of an event: on the suspend-proof clock, and in microseconds of the wall clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) time: Time,
    pub(super) wall: u64,
}

impl Now {
    /// Our own time, used as the server's time in replies: of all clocks involved, only ours never jumps.
    pub(super) fn server_time(self) -> ServerTime {
        ServerTime(self.time.0 / 1_000)
    }
}

/// A link to one of the servers that is ready for commands, and what the server has said of itself.
#[derive(Clone, Debug)]
pub(super) struct NewLink {
    /// An instant before the server was asked.
    pub(super) sent: Time,
    /// See [`LinkEvent::Up`].
    pub(super) former_links_dead: bool,
    pub(super) pushes: Pushes,
    pub(super) origin: Origin,
}

/// An operation of this process, which a round carries out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    Ask(op::Ask),
    Release(op::Release),
    Renew(op::Renew),
}

impl Request {
    pub(super) fn token(&self) -> Token {
        match self {
            Request::Ask(op) => op.token(),
            Request::Release(op) => op.token,
            Request::Renew(op) => op.token,
        }
    }
}

/// What a round has come to.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Ask(OpResult<AcquireReply>),
    Release(OpResult<ReleaseReply>),
    Renew(OpResult<RenewReply>),
}

impl Outcome {
    /// The operation succeeded on a majority.
    pub(super) fn is_success(&self) -> bool {
        match self {
            Outcome::Ask(result) => result.as_ref().is_ok_and(AcquireReply::is_acquired),
            Outcome::Release(result) => {
                matches!(result, Ok(ReleaseReply::Released { .. } | ReleaseReply::Cancelled))
            }
            Outcome::Renew(result) => matches!(result, Ok(RenewReply::Renewed { .. })),
        }
    }
}

/// What a command for one server is for, and its operation.
#[derive(Clone, Debug)]
pub(super) enum Command {
    Ask(AskJob, op::Ask),
    Release(ReleaseJob, op::Release),
    /// Of this round.
    Renew(u64, op::Renew),
    Fence(FenceJob, op::Fence),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum AskJob {
    /// The operation of a round.
    Vote(u64),
    /// An acquisition where a held lock is missing.
    Repair(Token),
}

#[derive(Clone, Debug)]
pub(super) enum ReleaseJob {
    /// The operation of a round.
    Vote(u64),
    /// The release of what is left of a token. `until`: when nothing of it can be left any more.
    Compensate { key: Arc<str>, token: Token, round: u64, until: Time },
    /// The reply does not matter.
    Ignored,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum FenceJob {
    /// The fencing tokens proposed in a round.
    Propose(u64),
    /// The fencing tokens written back in a round, and the first of them.
    WriteBack(u64, u64),
    /// The reply does not matter.
    Ignored,
}

/// What became of a [`Command`].
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Ask(AskJob, OpResult<AcquireReply>),
    Release(ReleaseJob, OpResult<ReleaseReply>),
    Renew(u64, OpResult<RenewReply>),
    Fence(FenceJob, OpResult<FenceReply>),
}

impl Command {
    pub(super) fn failed(&self, error: StoreError) -> Answer {
        match self {
            Command::Ask(job, _) => Answer::Ask(*job, Err(error)),
            Command::Release(job, _) => Answer::Release(job.clone(), Err(error)),
            Command::Renew(round, _) => Answer::Renew(*round, Err(error)),
            Command::Fence(job, _) => Answer::Fence(*job, Err(error)),
        }
    }
}

impl Operation for Command {
    type Reply = Answer;

    fn encoder(&self) -> &dyn Encode {
        match self {
            Command::Ask(_, op) => op,
            Command::Release(_, op) => op,
            Command::Renew(_, op) => op,
            Command::Fence(_, op) => op,
        }
    }

    fn read(&self, client: &str, encoding: Encoding, value: &Value) -> Result<Answer, Garbled> {
        Ok(match self {
            Command::Ask(job, op) => Answer::Ask(*job, Ok(op.read(client, encoding, value)?)),
            Command::Release(job, op) => Answer::Release(job.clone(), Ok(op.read(client, encoding, value)?)),
            Command::Renew(round, op) => Answer::Renew(*round, Ok(op.read(client, encoding, value)?)),
            Command::Fence(job, op) => Answer::Fence(*job, Ok(op.read(client, encoding, value)?)),
        })
    }

    fn acquires(reply: &Answer) -> bool {
        matches!(reply, Answer::Ask(_, Ok(reply)) if reply.is_acquired())
    }
}

/// What became of a note that was to be written on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    Done,
    Failed,
}

impl Writing {
    pub(super) fn of<T>(result: &OpResult<T>) -> Writing {
        if result.is_ok() { Writing::Done } else { Writing::Failed }
    }
}

/// What the worker has to do.
#[derive(Debug)]
pub(super) enum Effect {
    Send {
        node: usize,
        key: Arc<str>,
        command: Command,
    },
    Done {
        round: u64,
        outcome: Outcome,
    },
    Link(LinkEvent),
    Push(Push),
    /// Probe the server: ask for its run and its notes.
    Probe {
        node: usize,
    },
    /// Write a note on the server, before any later command to it.
    Note {
        node: usize,
        note: Note,
    },
}
