//! What happens to the coordinator, and what it wants done.

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
    /// What stands for the server's time in replies: of all clocks, ours is the one that does not jump.
    pub(super) fn server_time(self) -> ServerTime {
        ServerTime(self.time.0 / 1_000)
    }
}

/// What an answer is about.
#[derive(Clone, Debug)]
pub(super) enum Job {
    /// The operation of a round.
    Vote(u64),
    /// The fencing tokens proposed in a round.
    Propose(u64),
    /// The fencing tokens written back in a round, and the first of them.
    WriteBack(u64, u64),
    /// Giving back what is left of a token, until then.
    Compensate { key: Arc<str>, token: Token, round: u64, until: Time },
    /// Taking a lock that is held where it is missing.
    Repair(Token),
    /// Nothing depends on it.
    Ignored,
}

/// What is to be done.
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
    /// Ask the server what it is.
    Probe {
        node: usize,
    },
    /// Leave a note on the server: before whatever it is sent after this.
    Note {
        node: usize,
        note: Note,
    },
}
