//! Events for the coordinator, and effects that it requests.

use std::sync::Arc;

use redis::Value;

use super::super::redis::{Encode, Encoding, Garbled, Operation, Origin, ServerNote};
use super::super::{
    AcquireReply, EarlierCommands, FenceReply, LinkEvent, Notifications, OpResult, Push, ReleaseReply,
    RenewReply, ServerTime, StoreError, Token, op,
};
use crate::protocol::{Time, When};

/// The time of an event: on the suspend-proof clock, and in microseconds of the wall clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) time: Time,
    pub(super) wall: u64,
}

impl Now {
    /// The time of this process, used as the server's time in replies. Of all clocks involved, only this one never
    /// jumps.
    pub(super) fn server_time(self) -> ServerTime {
        ServerTime(self.time.0 / 1_000)
    }
}

/// A link to one of the servers that is ready for commands, and the server's description of itself.
#[derive(Clone, Debug)]
pub(super) struct NewLink {
    /// An instant before the server was asked.
    pub(super) sent: Time,
    /// See [`LinkEvent::Up`].
    pub(super) earlier: EarlierCommands,
    pub(super) pushes: Notifications,
    pub(super) origin: Origin,
}

/// An operation of this process, which a round executes.
#[derive(Clone, Copy, Debug)]
pub(super) enum RoundOp {
    Ask(op::Ask),
    Release(op::Release),
    Renew(op::Renew),
}

impl RoundOp {
    pub(super) fn token(&self) -> Token {
        match self {
            RoundOp::Ask(op) => op.token(),
            RoundOp::Release(op) => op.token,
            RoundOp::Renew(op) => op.token,
        }
    }
}

/// The outcome of a round.
#[derive(Clone, Debug)]
pub(super) enum RoundOutcome {
    Ask(OpResult<AcquireReply>),
    Release(OpResult<ReleaseReply>),
    Renew(OpResult<RenewReply>),
}

impl RoundOutcome {
    pub(super) fn ask(self) -> Option<OpResult<AcquireReply>> {
        if let RoundOutcome::Ask(result) = self { Some(result) } else { None }
    }

    pub(super) fn release(self) -> Option<OpResult<ReleaseReply>> {
        if let RoundOutcome::Release(result) = self { Some(result) } else { None }
    }

    pub(super) fn renew(self) -> Option<OpResult<RenewReply>> {
        if let RoundOutcome::Renew(result) = self { Some(result) } else { None }
    }

    /// The operation succeeded on a majority.
    pub(super) fn is_success(&self) -> bool {
        match self {
            RoundOutcome::Ask(result) => result.as_ref().is_ok_and(AcquireReply::is_acquired),
            RoundOutcome::Release(result) => {
                matches!(result, Ok(ReleaseReply::Released { .. } | ReleaseReply::Cancelled))
            }
            RoundOutcome::Renew(result) => matches!(result, Ok(RenewReply::Renewed { .. })),
        }
    }
}

/// The purpose of a command for one server, and its operation.
#[derive(Clone, Debug)]
pub(super) enum MemberCommand {
    Ask(AskJob, op::Ask),
    Release(ReleaseJob, op::Release),
    /// The renewal of this round.
    Renew(u64, op::Renew),
    Fence(FenceJob, op::Fence),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum AskJob {
    /// The operation of a round.
    Vote(u64),
    /// An acquisition on a server that lacks a held lock.
    Repair(Token),
}

/// A release that must still be sent or confirmed, because the server may have data of the token.
#[derive(Clone, Debug)]
pub(super) struct MemberRelease {
    pub(super) key: Arc<str>,
    pub(super) token: Token,
    /// The round that left this data on the server.
    pub(super) round: u64,
    /// When to send the release.
    pub(super) at: When,
    /// After this time, nothing of the token can be left.
    pub(super) until: Time,
}

#[derive(Clone, Debug)]
pub(super) enum ReleaseJob {
    /// The operation of a round.
    Vote(u64),
    /// The release of the rest of a token.
    Compensate(MemberRelease),
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

/// The result of a [`MemberCommand`].
#[derive(Clone, Debug)]
pub(super) enum MemberReply {
    Ask(AskJob, OpResult<AcquireReply>),
    Release(ReleaseJob, OpResult<ReleaseReply>),
    Renew(u64, OpResult<RenewReply>),
    Fence(FenceJob, OpResult<FenceReply>),
}

impl MemberCommand {
    pub(super) fn failed(&self, error: StoreError) -> MemberReply {
        match self {
            MemberCommand::Ask(job, _) => MemberReply::Ask(*job, Err(error)),
            MemberCommand::Release(job, _) => MemberReply::Release(job.clone(), Err(error)),
            MemberCommand::Renew(round, _) => MemberReply::Renew(*round, Err(error)),
            MemberCommand::Fence(job, _) => MemberReply::Fence(*job, Err(error)),
        }
    }
}

impl Operation for MemberCommand {
    type Reply = MemberReply;

    fn encoder(&self) -> &dyn Encode {
        match self {
            MemberCommand::Ask(_, op) => op,
            MemberCommand::Release(_, op) => op,
            MemberCommand::Renew(_, op) => op,
            MemberCommand::Fence(_, op) => op,
        }
    }

    fn read(&self, client: &str, encoding: Encoding, value: &Value) -> Result<MemberReply, Garbled> {
        Ok(match self {
            MemberCommand::Ask(job, op) => MemberReply::Ask(*job, Ok(op.read(client, encoding, value)?)),
            MemberCommand::Release(job, op) => {
                MemberReply::Release(job.clone(), Ok(op.read(client, encoding, value)?))
            }
            MemberCommand::Renew(round, op) => {
                MemberReply::Renew(*round, Ok(op.read(client, encoding, value)?))
            }
            MemberCommand::Fence(job, op) => MemberReply::Fence(*job, Ok(op.read(client, encoding, value)?)),
        })
    }
}

/// The result of writing a note on a server.
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

/// The tasks for the worker.
#[derive(Debug)]
pub(super) enum Effect {
    Send {
        node: usize,
        key: Arc<str>,
        command: MemberCommand,
    },
    Done {
        round: u64,
        outcome: RoundOutcome,
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
        note: ServerNote,
    },
}
