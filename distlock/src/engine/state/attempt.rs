//! Where an attempt to get a lock stands.

use std::sync::Arc;
use std::time::Duration;

use super::link::Link;
use crate::engine::{ACQUIRE_RESEND_AFTER, LONGEST_CLAIM};
use crate::lease_cell::Ticket;
use crate::protocol::{Failure, Kind, OpError, OpResult, ServerTime, Time, Token, mutated};

/// One attempt to get a lock: at most one queue entry on the server, named by the token.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) token: Token,
    pub(crate) kind: Kind,
    /// The latest `enter` (its number, when it was sent) while its answer is awaited.
    pub(crate) asked: Option<(u64, Time)>,
    /// The newest `enter` that was answered. Older answers say nothing new.
    pub(crate) seen: u64,
    /// An entry may stand in the queue on the server.
    pub(crate) queued: bool,
    /// The fewest fencing tokens that any `enter` of this attempt reserved.
    pub(crate) fences: Option<u32>,
    pub(crate) claim: Duration,
    /// The server's time in a reply that found us queued, and when that was asked for.
    pub(crate) pair: Option<(ServerTime, Time)>,
    /// Who held the lock when the server last said so.
    pub(crate) holder: Option<Arc<str>>,
    /// When the run of hand-offs began in which the lock was given to us, if it was.
    pub(crate) handoffs_began: Option<ServerTime>,
    pub(crate) ask_at: Option<Time>,
    pub(crate) polls: u32,
    /// How often in a row the server has refused for now.
    pub(crate) refusals: u32,
    /// Since when the server has not answered.
    pub(crate) silent: Option<Time>,
    pub(crate) cause: Option<OpError>,
    /// The lease was ours already at this time; the local chain began then.
    pub(crate) entered: Option<Time>,
    /// Commands whose outcome is unknown: no conclusive reply has come yet.
    pub(crate) open: u32,
    /// Some command has been carried out, or may have been, that leaves an entry in the queue.
    pub(crate) may_have_queued: bool,
    /// Since when answers have come too late to be of use.
    pub(crate) late_since: Option<Time>,
    /// Its first command, which was not answered, is one for several keys.
    pub(crate) batch_role: Option<BatchRole>,
    /// The longest ttl that it has asked for.
    pub(crate) longest: Duration,
}

impl Attempt {
    pub(crate) fn new(token: Token, kind: Kind) -> Self {
        Attempt {
            token,
            kind,
            asked: None,
            seen: 0,
            queued: false,
            fences: None,
            claim: LONGEST_CLAIM,
            pair: None,
            holder: None,
            handoffs_began: None,
            ask_at: None,
            polls: 0,
            refusals: 0,
            silent: None,
            cause: None,
            entered: None,
            open: 0,
            may_have_queued: false,
            late_since: None,
            batch_role: None,
            longest: Duration::ZERO,
        }
    }

    /// When the command under way is sent once more, unless it is answered before.
    pub(crate) fn resend_at(&self, link: &Link) -> Option<Time> {
        self.asked.filter(|_| !link.is_down()).map(|(_, at)| at.after(ACQUIRE_RESEND_AFTER))
    }

    /// The server is to be asked, or asked again.
    pub(crate) fn is_due(&self, now: Time, link: &Link) -> bool {
        let times = [self.ask_at, self.resend_at(link)];
        times.into_iter().flatten().any(|at| at <= now)
    }

    pub(crate) fn may_be_applied(&self) -> bool {
        let queued = self.queued && !mutated!(QueuedNotCancelled);
        queued || self.open > 0 || self.entered.is_some()
    }

    /// A command was answered, or will not be. `queues`: it was to leave an entry in the queue.
    pub(crate) fn heard_of(&mut self, result: &OpResult, queues: bool) {
        let kind = result.as_ref().err().map(|error| error.kind);
        let not_done = matches!(kind, Some(Failure::NotSent | Failure::Later));
        self.may_have_queued |= queues && !not_done;
        if !result.as_ref().is_err_and(OpError::may_be_applied) {
            self.open = self.open.saturating_sub(1);
        }
        if self.open == 0 && !self.may_have_queued {
            self.queued = false;
        }
    }
}

/// What an attempt is in a command for several keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchRole {
    Leader,
    /// Made for this request only.
    Follower(Ticket),
}
