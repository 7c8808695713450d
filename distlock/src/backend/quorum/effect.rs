//! Events that reach the coordinator, and effects that it wants carried out.

use std::sync::Arc;

use super::super::redis::Note;
use super::super::{LinkEvent, Op, OpResult, Push, ServerTime, Token};
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

/// What a reply belongs to.
#[derive(Clone, Debug)]
pub(super) enum Job {
    /// The operation of a round.
    Vote(u64),
    /// The fencing tokens proposed in a round.
    Propose(u64),
    /// The fencing tokens written back in a round, and the first of them.
    WriteBack(u64, u64),
    /// The release of what is left of a token. `until`: when nothing of it can be left any more.
    Compensate { key: Arc<str>, token: Token, round: u64, until: Time },
    /// An acquisition where a held lock is missing.
    Repair(Token),
    /// The reply does not matter.
    Ignored,
}

/// What the worker has to do.
#[derive(Debug)]
pub(super) enum Effect {
    Send {
        node: usize,
        job: Job,
        key: Arc<str>,
        op: Op,
    },
    Done {
        round: u64,
        result: OpResult,
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
