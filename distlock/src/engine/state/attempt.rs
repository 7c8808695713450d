//! The state of an attempt to acquire a lock.

use std::sync::Arc;
use std::time::Duration;

use super::linger::Linger;
use super::link::LinkStatus;
use crate::engine::rules;
use crate::engine::{ACQUIRE_RESEND_AFTER, AcquirePurpose, KnownHolder, LONGEST_CLAIM, Queueing, Want};
use crate::lease_cell::{How, Ticket};
use crate::protocol::{Failure, LockKind, ServerTime, StoreError, Time, Token, When, may_be_applied};

/// One attempt to acquire a lock. It has at most one queue entry on the server, named by the token.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) token: Token,
    pub(crate) kind: LockKind,
    /// Whether a holder of this process had a lease with this token.
    pub(crate) is_former: bool,
    /// The holder that it is to replace.
    pub(crate) replaces: Option<Arc<str>>,
    pub(crate) phase: Phase,
    /// The newest acquire command that was answered. Replies to older commands say nothing new.
    pub(crate) last_seq: u64,
    /// The smallest number of fencing tokens that any command of this attempt reserved.
    pub(crate) fences: Option<u32>,
    /// The shortest claim that the queue entry may have: that of the last acquire command that was answered,
    /// or of any command sent since.
    pub(crate) claim: Duration,
    /// The server's time in a reply that found us queued, and the instant before that command was sent.
    pub(crate) queued_times: Option<(ServerTime, Time)>,
    /// The holder, as the server last reported it.
    pub(crate) holder: Option<KnownHolder>,
    /// If the lock was granted to us: when the run of hand-offs began.
    pub(crate) handoffs_began: Option<ServerTime>,
    pub(crate) polls: u32,
    /// The number of consecutive temporary refusals.
    pub(crate) refusals: u32,
    /// Since when the server has not replied.
    pub(crate) silent: Option<Time>,
    pub(crate) cause: Option<StoreError>,
    /// Set if the lease was ours already: when the local chain began.
    pub(crate) entered: Option<Time>,
    pub(crate) traces: Traces,
    /// Since when every reply has come after the end of its lease.
    pub(crate) late_since: Option<Time>,
    /// Set while its first command, a batch for several keys, has no reply.
    pub(crate) batch_role: Option<BatchRole>,
    /// The longest ttl that any of its commands asked for.
    pub(crate) longest: Duration,
    /// Whether the lease may stay after its last section.
    pub(crate) linger: Linger,
    /// How often it was planned to ask again because the present holder may keep the lock without a section.
    pub(crate) linger_asks: u32,
    /// How the lease came to us, if it is known to be ours already.
    pub(crate) how: Option<How>,
    pub(crate) queued: QueuedReport,
}

impl Attempt {
    pub(crate) fn new(token: Token, kind: LockKind) -> Self {
        Attempt {
            token,
            kind,
            is_former: false,
            replaces: None,
            phase: Phase::Backoff { at: When::OnLinkUp },
            traces: Traces::default(),
            last_seq: 0,
            fences: None,
            claim: LONGEST_CLAIM,
            queued_times: None,
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
            linger_asks: 0,
            linger: if token.linger().is_some() { Linger::May } else { Linger::Never },
            how: None,
            queued: QueuedReport::Due,
        }
    }

    /// One of its commands was answered, or its reply will never come (`error`). False: the reply says nothing
    /// new.
    pub(crate) fn takes_in(&mut self, asked: AcquirePurpose, error: Option<&StoreError>) -> bool {
        // A store that refuses to replace the holder has changed nothing.
        let is_settled = self.replaces.is_some() && error.is_some_and(|error| error.kind == Failure::Refused);
        self.traces.heard_of(error.filter(|_| !is_settled), asked.queueing);
        if rules::is_stale(asked.seq, self.last_seq) {
            return false;
        }
        self.last_seq = self.last_seq.max(asked.seq);
        self.phase.answered(asked.seq);
        true
    }

    /// When the server has to be asked, for the first time or again. While a command is in progress, it is only sent
    /// again if no reply comes: a store executes the commands for a key one after the other, so those of many hints
    /// would delay its renewals and releases.
    pub(crate) fn next_ask(&self, link: &LinkStatus) -> Option<Time> {
        match self.phase {
            Phase::InFlight { sent, .. } => (!link.is_down()).then(|| sent.after(ACQUIRE_RESEND_AFTER)),
            Phase::Backoff { .. } | Phase::Queued { .. } => self.phase.ask_at(),
        }
    }

    /// True if it is part of a batch that another key leads, and never sends a command of its own.
    pub(crate) fn follows(&self) -> bool {
        matches!(self.batch_role, Some(BatchRole::Follower(_))) && rules::followers_do_not_ask()
    }

    /// Whether the attempt serves this request, if the request is the first.
    pub(crate) fn serves(&self, want: &Want) -> bool {
        self.kind == want.kind
            && self.replaces == want.replaces
            && (!self.is_former || rules::takes_former_leases(want))
    }

    pub(crate) fn may_be_applied(&self) -> bool {
        self.traces.may_exist() || self.entered.is_some()
    }

    /// Whether it, or an attempt before it whose lease came too late, may have replaced a holder.
    pub(crate) fn may_have_replaced(&self) -> bool {
        self.replaces.is_some() && (self.may_be_applied() || self.late_since.is_some())
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
    /// No command is in progress. The next one is sent later.
    Backoff { at: When },
    /// The reply to the latest command, `seq`, has not come. `ask_at`: when to ask again after that reply, because a
    /// reply to an earlier command, or a push, came first.
    InFlight { seq: u64, sent: Time, ask_at: Option<Time> },
    /// It is in the server's queue. If no push comes, it asks again at this time to keep its place.
    Queued { ask_at: Time },
}

impl Phase {
    /// When to ask next, unless the reply to the command in progress says otherwise.
    fn ask_at(self) -> Option<Time> {
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

    /// The server refused, or was unreachable.
    pub(crate) fn back_off(&mut self, at: When) {
        match self {
            Phase::InFlight { ask_at, .. } => *ask_at = at.time(),
            Phase::Backoff { .. } | Phase::Queued { .. } => *self = Phase::Backoff { at },
        }
    }

    /// It is in the server's queue. The push of a poll gap may have come before the reply that says so.
    pub(crate) fn queued(&mut self, at: Time) {
        let sooner = self.ask_at().map_or(at, |sooner| sooner.min(at));
        match self {
            Phase::InFlight { ask_at, .. } => *ask_at = Some(sooner),
            Phase::Backoff { .. } | Phase::Queued { .. } => *self = Phase::Queued { ask_at: sooner },
        }
    }

    /// A push came: it asks at that time, and not before.
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
    /// An entry may be in the queue.
    queued: bool,
    /// A command that queues the token was applied, or may have been.
    may_have_queued: bool,
    /// Commands whose outcome is unknown: no conclusive reply yet.
    open: u32,
}

impl Traces {
    pub(crate) fn is_queued(&self) -> bool {
        self.queued
    }

    /// Something may be left on the server that has to be released.
    fn may_exist(&self) -> bool {
        let queued = self.queued && rules::queue_entries_are_cancelled();
        queued || self.open > 0
    }

    /// Every command has been answered.
    pub(crate) fn all_answered(&self) -> bool {
        self.open == 0
    }

    /// A command was sent.
    pub(crate) fn sent(&mut self, queueing: Queueing) {
        self.queued |= queueing == Queueing::May;
        self.open = self.open.saturating_add(1);
    }

    /// A command was answered, or its reply will never come (`error`).
    fn heard_of(&mut self, error: Option<&StoreError>, queueing: Queueing) {
        let kind = error.map(|error| error.kind);
        let not_done = matches!(kind, Some(Failure::NotSent | Failure::Later));
        self.may_have_queued |= queueing == Queueing::May && !not_done;
        if !error.is_some_and(may_be_applied) {
            self.open = self.open.saturating_sub(1);
        }
        if self.open == 0 && !self.may_have_queued {
            self.queued = false;
        }
    }
}

/// The role of an attempt in a command for several keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchRole {
    Leader,
    /// The request that this attempt was made for. It serves no other.
    Follower(Ticket),
}
