//! A round: one operation on all servers, their replies, and the decision of a majority. It does no I/O.

use std::sync::Arc;
use std::time::Duration;

use super::super::{
    AcquireReply, CurrentHolder, Failure, FenceReply, OpResult, ReleaseReply, Remaining, RenewReply,
    ServerTime, StoreError, Token,
};
use super::effect::{RoundOp, RoundOutcome};
use super::server_reply::{ServerReply, failed};
use super::servers::Servers;
use crate::protocol::Time;
use crate::protocol::mutated;

/// Whether a server's acquisitions are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Counts,
    /// It may have forgotten locks.
    DoesNotCount,
}

/// The state of a token before a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// A majority has said that it holds the lock.
    Held,
    NotHeld,
}

/// One server's part in a round.
#[derive(Clone, Debug)]
pub(super) struct ServerAnswer {
    pub(super) reply: ServerReply,
    /// The first half of the reply, if the operation and its fencing proposal get separate replies.
    half: Option<Half>,
    /// Whether the server counted when it replied.
    pub(super) standing: Standing,
}

#[derive(Clone, Debug)]
enum Half {
    Entered {
        fresh: bool,
    },
    /// The highest fencing token that the server knew before, if the proposal was stored.
    Fenced(Option<u64>),
}

/// The result of a round.
#[derive(Clone, Debug)]
pub(super) enum Decision {
    /// The replies of a majority agree, or a majority is impossible.
    Done(RoundOutcome),
    /// A majority has the lock for this process, but its counters know higher tokens. So higher tokens must be written
    /// first.
    WriteBack { first: u64 },
}

/// The second half of an acquisition whose proposed tokens were too low.
#[derive(Clone, Debug)]
pub(super) struct WriteBack {
    pub(super) first: u64,
    votes: Vec<Option<bool>>,
}

#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) sent: Time,
    pub(super) key: Arc<str>,
    pub(super) request: RoundOp,
    pub(super) token: Token,
    /// The first proposed fencing token, and their number.
    pub(super) proposal: Option<(u64, u32)>,
    /// Other rounds gave tokens below this to this lease, so the block of this round must lie above.
    pub(super) above: u64,
    pub(super) answers: Vec<ServerAnswer>,
    pub(super) write_back: Option<WriteBack>,
    /// The number of commands without a reply.
    pub(super) under_way: usize,
    pub(super) decided: bool,
    /// The operation succeeded on a majority.
    pub(super) succeeded: bool,
    /// Servers that were sent any command for the token.
    pub(super) touched: Servers,
    /// Servers that are asked for the lock only after the queue server has replied.
    pub(super) not_asked: Servers,
    /// The round no longer waits for missing replies.
    overdue: bool,
    /// The server that queues the token.
    pub(super) queue: Option<usize>,
    /// The token was released since then, so the round must do nothing more for it.
    pub(super) left: bool,
}

/// How many of `servers` are a majority.
pub(super) fn majority(servers: usize) -> usize {
    if mutated!(HalfIsEnough) { servers / 2 } else { servers / 2 + 1 }
}

impl ServerAnswer {
    fn counts(&self) -> bool {
        self.standing == Standing::Counts
    }
}

impl Round {
    pub(super) fn new(sent: Time, key: Arc<str>, request: RoundOp, servers: usize) -> Round {
        let answer = ServerAnswer { reply: ServerReply::Open, half: None, standing: Standing::Counts };
        Round {
            sent,
            key,
            token: request.token(),
            request,
            proposal: None,
            above: 0,
            answers: vec![answer; servers],
            write_back: None,
            under_way: 0,
            decided: false,
            succeeded: false,
            touched: Servers::default(),
            not_asked: Servers::default(),
            overdue: false,
            queue: None,
            left: false,
        }
    }

    pub(super) fn acquires(&self) -> bool {
        matches!(self.request, RoundOp::Ask(_))
    }

    /// The requested ttl, if the round requests the lock.
    pub(super) fn ttl(&self) -> Option<Duration> {
        match self.request {
            RoundOp::Ask(op) => Some(op.ttl()),
            RoundOp::Renew(op) => Some(op.ttl),
            RoundOp::Release(_) => None,
        }
    }

    /// Whether servers that are busy queue the token.
    pub(super) fn queues(&self) -> bool {
        matches!(self.request, RoundOp::Ask(op) if op.queues())
    }

    pub(super) fn reply(&self, node: usize) -> &ServerReply {
        self.answers.get(node).map_or(&ServerReply::Open, |answer| &answer.reply)
    }

    /// The operation is not sent to this server.
    pub(super) fn not_sent(&mut self, node: usize) {
        self.answered(node, failed(StoreError::new(Failure::NotSent, "not asked")), Standing::Counts);
    }

    /// The servers had enough time, if a majority has replied. If all servers are slow, the round waits for all.
    pub(super) fn is_overdue(&mut self) {
        let answered = self.count(|reply| !matches!(reply, ServerReply::Open));
        self.overdue = answered >= majority(self.answers.len());
    }

    /// Whether the queue server, asked alone, replied that another token holds the lock.
    fn is_queued(&self) -> bool {
        let busy = |node| matches!(self.reply(node), ServerReply::Busy { .. });
        !self.not_asked.is_empty() && self.queue.is_some_and(busy)
    }

    /// Records the reply to the operation itself. Returns whether the server's reply is complete.
    pub(super) fn answered(&mut self, node: usize, reply: ServerReply, standing: Standing) -> bool {
        let fenced = self.proposal.is_some();
        let Some(answer) = self.answers.get_mut(node) else { return false };
        answer.standing = standing;
        match (reply, answer.half.take()) {
            (ServerReply::Ours { fresh, .. }, Some(Half::Fenced(last))) => {
                answer.reply = ServerReply::Ours { fresh, last }
            }
            (ServerReply::Ours { fresh, .. }, _) if fenced => {
                answer.half = Some(Half::Entered { fresh });
                return false;
            }
            (reply, _) => answer.reply = reply,
        }
        true
    }

    /// Records the reply to the fencing proposal. Returns whether the server's reply is complete.
    pub(super) fn fenced(&mut self, node: usize, result: &OpResult<FenceReply>) -> bool {
        let Some(answer) = self.answers.get_mut(node) else { return false };
        let last = match result {
            Ok(FenceReply::Fenced { last }) => Some(*last),
            Ok(FenceReply::NotHeld) => None,
            Err(_) => mutated!(ErrorsAreConsent).then_some(0),
        };
        match (&answer.reply, answer.half.take()) {
            (ServerReply::Open, Some(Half::Entered { fresh })) => {
                answer.reply = ServerReply::Ours { fresh, last }
            }
            (ServerReply::Open, _) => {
                answer.half = Some(Half::Fenced(last));
                return false;
            }
            // The lock was not acquired there.
            _ => return false,
        }
        true
    }

    /// Records the reply to a write-back.
    pub(super) fn written(&mut self, node: usize, first: u64, result: &OpResult<FenceReply>) {
        if let Some(reply) = self
            .write_back
            .as_mut()
            .filter(|back| back.first == first)
            .and_then(|back| back.votes.get_mut(node))
        {
            *reply = Some(matches!(result, Ok(FenceReply::Fenced { .. })));
        }
    }

    /// The replies of the servers that have the lock for this process, and how many other servers may still follow.
    fn ours(&self) -> (Vec<&ServerReply>, usize) {
        let fenced = self.proposal.is_some();
        let ours = self.answers.iter().filter(|answer| match answer.reply {
            // If the proposal may not have been stored there, the lock does not count.
            ServerReply::Ours { last, .. } => answer.counts() && (last.is_some() || !fenced),
            _ => false,
        });
        let open = if self.overdue { 0 } else { self.count(|reply| matches!(reply, ServerReply::Open)) };
        (ours.map(|answer| &answer.reply).collect(), open)
    }

    fn count(&self, of: impl Fn(&ServerReply) -> bool) -> usize {
        self.answers.iter().filter(|answer| of(&answer.reply)).count()
    }

    /// The decision from the replies so far, if there is one. `before` is the state of the token before the round.
    pub(super) fn decision(&self, server_time: ServerTime, before: Before) -> Option<Decision> {
        match self.request {
            RoundOp::Ask(_) => self.acquired(server_time, before),
            RoundOp::Release(_) => {
                self.given_back().map(|result| Decision::Done(RoundOutcome::Release(result)))
            }
            RoundOp::Renew(_) => {
                self.renewed(server_time).map(|result| Decision::Done(RoundOutcome::Renew(result)))
            }
        }
    }

    fn acquired(&self, server_time: ServerTime, before: Before) -> Option<Decision> {
        let wrong = self.answers.iter().find_map(|answer| match &answer.reply {
            ServerReply::WrongKind(found) => Some(found.clone()),
            _ => None,
        });
        if let Some(found) = wrong {
            return Some(asked(Ok(AcquireReply::WrongKind { found })));
        }
        let most = majority(self.answers.len());
        let (ours, open) = self.ours();
        if let Some(back) = &self.write_back {
            return self.written_back(back, server_time, before);
        }
        if ours.len() < most {
            // Servers that were not asked yet are undecided, too.
            return (ours.len() + open < most || self.is_queued())
                .then(|| asked(self.rejection(server_time)));
        }
        let Some((first, count)) = self.proposal else {
            return Some(self.entered(server_time, before, None));
        };
        let known = |reply: &&&ServerReply| matches!(reply, ServerReply::Ours { last: Some(last), .. } if *last < first);
        let agreed =
            ours.iter().filter(known).count() >= most && (first >= self.above || mutated!(BlockBelowAnother));
        if agreed || mutated!(ProposalAlwaysTaken) {
            return Some(self.entered(server_time, before, Some(first)));
        }
        let highest = ours.iter().filter_map(|reply| match reply {
            ServerReply::Ours { last, .. } => *last,
            _ => None,
        });
        let above = highest.max().unwrap_or(0).max(first.saturating_add(u64::from(count)) - 1);
        Some(Decision::WriteBack { first: above.saturating_add(1) })
    }

    fn written_back(&self, back: &WriteBack, server_time: ServerTime, before: Before) -> Option<Decision> {
        let most = majority(self.answers.len());
        let votes = || back.votes.iter().zip(&self.answers).filter(|(_, answer)| answer.counts());
        let done = votes().filter(|(reply, _)| **reply == Some(true)).count();
        let open = votes().filter(|(reply, answer)| reply.is_none() && may_be_ours(&answer.reply)).count();
        if done >= most && back.first < self.above {
            Some(Decision::WriteBack { first: self.above })
        } else if done >= most {
            Some(self.entered(server_time, before, Some(back.first)))
        } else if done + open < most {
            let text = "the lock was lost on most servers before its fencing token was agreed on";
            Some(asked(Err(StoreError::new(Failure::Later, text))))
        } else {
            None
        }
    }

    pub(super) fn begin_write_back(&mut self, first: u64) {
        self.write_back = Some(WriteBack { first, votes: vec![None; self.answers.len()] });
    }

    /// A majority has the lock for this process. A majority must also confirm whether it had the lock before.
    fn entered(&self, server_time: ServerTime, before: Before, fence: Option<u64>) -> Decision {
        let most = majority(self.answers.len());
        let count = |new: bool| {
            self.answers
                .iter()
                .filter(|a| a.counts() && matches!(a.reply, ServerReply::Ours { fresh, .. } if fresh == new))
                .count()
        };
        if count(false) >= most {
            asked(Ok(AcquireReply::AlreadyHeld { server_time: Some(server_time), fence }))
        } else if before == Before::Held && count(true) < most {
            let text = "this process holds the lock on a majority of the servers, but has not held it all the \
                        time";
            asked(Err(StoreError::new(Failure::Later, text)))
        } else {
            asked(Ok(AcquireReply::Acquired { server_time: Some(server_time), fence }))
        }
    }

    /// The holder reported by most servers, and by how many.
    fn holder(&self) -> Option<(CurrentHolder, usize)> {
        let busy = || {
            self.answers.iter().filter_map(|answer| match &answer.reply {
                ServerReply::Busy { holder, .. } => Some(holder),
                _ => None,
            })
        };
        let counted = busy().map(|holder| (holder.clone(), busy().filter(|other| *other == holder).count()));
        counted.max_by_key(|(_, seen)| *seen)
    }

    /// Whether another token may have a majority, as far as the replies show.
    pub(super) fn may_be_taken(&self) -> bool {
        let unknown = self.count(|reply| matches!(reply, ServerReply::Open | ServerReply::Failed(_)));
        self.holder().is_some_and(|(_, seen)| seen + unknown >= majority(self.answers.len()))
    }

    /// The reason why there is no majority.
    fn rejection(&self, server_time: ServerTime) -> OpResult<AcquireReply> {
        let Some((holder, seen)) = self.holder() else { return Err(self.failure()) };
        let busy = || {
            self.answers.iter().filter_map(|answer| match answer.reply {
                ServerReply::Busy { remaining, front, .. } => Some((remaining, front)),
                _ => None,
            })
        };
        let most = majority(self.answers.len());
        let elsewhere = self.count(|reply| matches!(reply, ServerReply::Open | ServerReply::Failed(_)));
        let remaining = if seen + elsewhere < most {
            // No token has a majority, so the next request may get one.
            Remaining::For(Duration::ZERO)
        } else {
            until_enough(busy().map(|(remaining, _)| remaining), most - self.ours().0.len())
        };
        Ok(AcquireReply::Busy {
            server_time: Some(server_time),
            holder,
            remaining,
            front: busy().any(|(_, front)| front),
        })
    }

    /// The failure that represents all others. A permanent failure takes precedence over a temporary one.
    fn failure(&self) -> StoreError {
        let failures = || {
            self.answers.iter().filter_map(|answer| match &answer.reply {
                ServerReply::Failed(error) => Some(error),
                _ => None,
            })
        };
        let of = |kind| failures().filter(move |error| error.kind == kind);
        let too_many = self.answers.len() - majority(self.answers.len()) + 1;
        let (kind, cause) = if of(Failure::Refused).count() >= too_many {
            (Failure::Refused, of(Failure::Refused).next())
        } else if failures().count() > 0 && failures().all(|error| error.kind == Failure::NotSent) {
            (Failure::NotSent, failures().next())
        } else {
            let worst = of(Failure::Unknown).next().or_else(|| failures().next());
            (if of(Failure::Unknown).count() > 0 { Failure::Unknown } else { Failure::Later }, worst)
        };
        let all = self.answers.len();
        let good = self.count(|reply| !matches!(reply, ServerReply::Failed(_) | ServerReply::Open));
        let young = self
            .answers
            .iter()
            .filter(|a| !a.counts() && matches!(a.reply, ServerReply::Ours { .. }))
            .count();
        let mut text = format!("no majority of the {all} servers: {good} answered");
        if young > 0 {
            text += &format!(
                ", and {young} of these do not count: they were restarted, lost their data, or had their \
                 clocks set so recently that they may not know all held locks"
            );
        }
        if let Some(cause) = cause {
            text += &format!("; {cause}");
        }
        StoreError::new(kind, text)
    }

    fn given_back(&self) -> Option<OpResult<ReleaseReply>> {
        let most = majority(self.answers.len());
        let released = self.count(|reply| matches!(reply, ServerReply::Released));
        let cancelled = self.count(|reply| matches!(reply, ServerReply::Cancelled));
        let not_ours = cancelled + self.count(|reply| matches!(reply, ServerReply::NotHeld));
        let open = self.count(|reply| matches!(reply, ServerReply::Open));
        if released >= most || (open == 0 && released > 0 && not_ours < most) {
            return Some(Ok(ReleaseReply::Released { gap: false }));
        }
        if not_ours >= most || (open == 0 && not_ours > 0) {
            return Some(Ok(if cancelled > 0 { ReleaseReply::Cancelled } else { ReleaseReply::NotHeld }));
        }
        (open == 0).then(|| Err(self.failure()))
    }

    fn renewed(&self, server_time: ServerTime) -> Option<OpResult<RenewReply>> {
        let most = majority(self.answers.len());
        let renewed = self.count(|reply| matches!(reply, ServerReply::Renewed));
        // The other servers of a majority renewed in an earlier round.
        let renewed = if mutated!(EarlierRenewalCounts) && renewed > 0 { most } else { renewed };
        // A server that has forgotten this lock does not count yet, so no other process can rely on an acquisition
        // there.
        let not_ours = |young: bool| {
            let forgot = |answer: &&ServerAnswer| {
                matches!(answer.reply, ServerReply::NotHeld) && answer.counts() != young
            };
            self.answers.iter().filter(forgot).count()
        };
        let too_many = self.answers.len() - most;
        let open = self.count(|reply| matches!(reply, ServerReply::Open));
        if renewed >= most {
            Some(Ok(RenewReply::Renewed { server_time }))
        } else if not_ours(false) > too_many || not_ours(true) > too_many {
            Some(Ok(RenewReply::NotHeld))
        } else {
            (open == 0).then(|| Err(self.failure()))
        }
    }
}

fn may_be_ours(reply: &ServerReply) -> bool {
    matches!(reply, ServerReply::Open | ServerReply::Ours { .. })
}

/// The time until `wanted` of the busy servers are free.
fn until_enough(busy: impl Iterator<Item = Remaining>, wanted: usize) -> Remaining {
    let mut times: Vec<Option<Duration>> = busy
        .filter_map(|remaining| match remaining {
            Remaining::Unknown => None,
            Remaining::Forever => Some(None),
            Remaining::For(left) => Some(Some(left)),
        })
        .collect();
    // Leases that never expire come last.
    times.sort_unstable_by_key(|left| left.unwrap_or(Duration::MAX));
    match times.get(wanted.saturating_sub(1)).or(times.last()) {
        None => Remaining::Unknown,
        Some(None) => Remaining::Forever,
        Some(Some(left)) => Remaining::For(*left),
    }
}

/// The decision about a round that requests a lock.
fn asked(result: OpResult<AcquireReply>) -> Decision {
    Decision::Done(RoundOutcome::Ask(result))
}
