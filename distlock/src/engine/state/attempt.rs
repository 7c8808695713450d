//! Where an attempt to get a lock stands.

use std::sync::Arc;
use std::time::Duration;

use super::link::Link;
use super::timers::When;
use crate::engine::rules;
use crate::engine::{ACQUIRE_RESEND_AFTER, LONGEST_CLAIM, Queueing};
use crate::lease_cell::{How, Ticket};
use crate::protocol::{Failure, Kind, OpError, OpResult, ServerTime, Time, Token};

/// One attempt to get a lock: at most one queue entry on the server, named by the token.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) token: Token,
    pub(crate) kind: Kind,
    pub(crate) phase: Phase,
    /// The newest `enter` that was answered. Older answers say nothing new.
    pub(crate) seen: u64,
    /// The fewest fencing tokens that any `enter` of this attempt reserved.
    pub(crate) fences: Option<u32>,
    /// The shortest claim that the entry in the queue may stand for: that of the last answered `enter`, or of any
    /// since then.
    pub(crate) claim: Duration,
    /// The server's time in a reply that found us queued, and when that was asked for.
    pub(crate) pair: Option<(ServerTime, Time)>,
    /// Who held the lock when the server last said so.
    pub(crate) holder: Option<Arc<str>>,
    /// When the run of hand-offs began in which the lock was given to us, if it was.
    pub(crate) handoffs_began: Option<ServerTime>,
    pub(crate) polls: u32,
    /// How often in a row the server has refused for now.
    pub(crate) refusals: u32,
    /// Since when the server has not answered.
    pub(crate) silent: Option<Time>,
    pub(crate) cause: Option<OpError>,
    /// The lease was ours already at this time; the local chain began then.
    pub(crate) entered: Option<Time>,
    pub(crate) traces: Traces,
    /// Since when answers have come too late to be of use.
    pub(crate) late_since: Option<Time>,
    /// Its first command, which was not answered, is one for several keys.
    pub(crate) batch_role: Option<BatchRole>,
    /// The longest ttl that it has asked for.
    pub(crate) longest: Duration,
    /// How the lease came to us, if it is known to be ours already.
    pub(crate) how: Option<How>,
    pub(crate) queued: QueuedReport,
}

impl Attempt {
    pub(crate) fn new(token: Token, kind: Kind) -> Self {
        Attempt {
            token,
            kind,
            phase: Phase::Backoff { at: When::OnLinkUp },
            traces: Traces::default(),
            seen: 0,
            fences: None,
            claim: LONGEST_CLAIM,
            pair: None,
            holder: None,
            handoffs_began: None,
            polls: 0,
            refusals: 0,
            silent: None,
            cause: None,
            entered: None,
            late_since: None,
            batch_role: None,
            longest: Duration::ZERO,
            how: None,
            queued: QueuedReport::Due,
        }
    }

    /// When the command under way is sent once more, unless it is answered before.
    pub(crate) fn resend_at(&self, link: &Link) -> Option<Time> {
        match self.phase {
            Phase::InFlight { sent, .. } if !link.is_down() => Some(sent.after(ACQUIRE_RESEND_AFTER)),
            _ => None,
        }
    }

    /// The server is to be asked, or asked again.
    pub(crate) fn is_due(&self, now: Time, link: &Link) -> bool {
        let times = [self.phase.ask_at(), self.resend_at(link)];
        times.into_iter().flatten().any(|at| at <= now)
    }

    /// It stands for a command for several keys and does not ask by itself.
    pub(crate) fn follows(&self) -> bool {
        matches!(self.batch_role, Some(BatchRole::Follower(_))) && rules::followers_do_not_ask()
    }

    pub(crate) fn may_be_applied(&self) -> bool {
        self.traces.may_exist() || self.entered.is_some()
    }
}

/// Whether it was reported that the attempt has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueuedReport {
    Due,
    Done,
}

/// What an attempt is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing is under way: it asks later.
    Backoff { at: When },
    /// The answer to the command `seq`, the latest one, is awaited. `ask_at`: to ask again although there is none,
    /// because of an answer to an earlier command, or of news that came first.
    InFlight { seq: u64, sent: Time, ask_at: Option<Time> },
    /// It stands in the queue, and asks again to keep its place if no news comes before.
    Queued { ask_at: Time },
}

impl Phase {
    /// When to ask next, whatever becomes of the command under way.
    pub(crate) fn ask_at(self) -> Option<Time> {
        match self {
            Phase::Backoff { at } => at.time(),
            Phase::InFlight { ask_at, .. } => ask_at,
            Phase::Queued { ask_at } => Some(ask_at),
        }
    }

    /// The command `seq` was answered.
    pub(crate) fn answered(&mut self, seq: u64) {
        if let Phase::InFlight { seq: asked, ask_at, .. } = *self
            && asked <= seq
        {
            *self = Phase::Backoff { at: ask_at.map_or(When::OnLinkUp, When::At) };
        }
    }

    /// The server has refused, or was not reached.
    pub(crate) fn back_off(&mut self, at: When) {
        match self {
            Phase::InFlight { ask_at, .. } => *ask_at = at.time(),
            Phase::Backoff { .. } | Phase::Queued { .. } => *self = Phase::Backoff { at },
        }
    }

    /// It stands in the queue. News of a gap may have come before the answer that says so.
    pub(crate) fn queued(&mut self, at: Time) {
        let sooner = self.ask_at().map_or(at, |sooner| sooner.min(at));
        match self {
            Phase::InFlight { ask_at, .. } => *ask_at = Some(sooner),
            Phase::Backoff { .. } | Phase::Queued { .. } => *self = Phase::Queued { ask_at: sooner },
        }
    }

    /// There is news: it asks at that time, and not before.
    pub(crate) fn put_to(&mut self, at: Time) {
        match self {
            Phase::Backoff { at: planned } => *planned = When::At(at),
            Phase::InFlight { ask_at, .. } => *ask_at = Some(at),
            Phase::Queued { ask_at } => *ask_at = at,
        }
    }
}

/// What the commands of an attempt may have left on the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traces {
    /// An entry may stand in the queue.
    queued: bool,
    /// Some command has been carried out, or may have been, that leaves an entry in the queue.
    may_have_queued: bool,
    /// Commands whose outcome is unknown: no conclusive reply has come yet.
    open: u32,
}

impl Traces {
    pub(crate) fn is_queued(&self) -> bool {
        self.queued
    }

    /// Something may be there that has to be given back.
    fn may_exist(&self) -> bool {
        let queued = self.queued && rules::queue_entries_are_cancelled();
        queued || self.open > 0
    }

    /// Everything that was sent has been answered.
    pub(crate) fn all_answered(&self) -> bool {
        self.open == 0
    }

    /// A command was sent.
    pub(crate) fn sent(&mut self, queueing: Queueing) {
        self.queued |= queueing == Queueing::May;
        self.open = self.open.saturating_add(1);
    }

    /// A command was answered, or will not be.
    pub(crate) fn heard_of(&mut self, result: &OpResult, queueing: Queueing) {
        let kind = result.as_ref().err().map(|error| error.kind);
        let not_done = matches!(kind, Some(Failure::NotSent | Failure::Later));
        self.may_have_queued |= queueing == Queueing::May && !not_done;
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
