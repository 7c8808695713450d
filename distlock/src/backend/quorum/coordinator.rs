//! Sends every operation to all servers, and decides by the replies of a majority. It does no I/O: time and replies
//! come in, commands and decisions go out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::{
    AcquireReply, Failure, FenceReply, LATE_COMMANDS, OpResult, RenewReply, ServerTime, StoreError, Token,
    Tuning, op,
};
use super::effect::{
    AskJob, Effect, FenceJob, MemberCommand, MemberReply, Now, ReleaseJob, RoundOp, RoundOutcome,
};
use super::formation::Formation;
use super::member::{Member, Occasion};
use super::missing::Repairs;
use super::queue::{Queues, order};
use super::round::{Before, Decision, Round, Standing};
use super::server_reply::{ServerReply, failed};
use super::servers::Servers;
use super::tokens::Tokens;
use crate::protocol::{Time, drift, mutated};

#[derive(Debug)]
pub(super) struct Coordinator {
    pub(super) members: Vec<Member>,
    pub(super) names: Vec<String>,
    pub(super) formation: Formation,
    pub(super) tokens: Tokens,
    pub(super) queues: Queues,
    pub(super) rng: fastrand::Rng,
    /// The longest lease that may be on any server, as far as this process knows.
    pub(super) longest_ttl: Duration,
    pub(super) out: Vec<Effect>,
    pub(super) repairs: Repairs,
    /// The lifetime of a queue entry.
    queue_entry_ttl: Duration,
    rounds: HashMap<u64, Round>,
    next_round: u64,
    /// Every fencing token below this is known to exist.
    fences: u64,
}

impl Coordinator {
    /// For the servers with these names. `longest_ttl` is the longest ttl of the leases of this deployment.
    pub(super) fn new(names: Vec<String>, longest_ttl: Duration, seed: u64) -> Coordinator {
        Coordinator {
            members: names.iter().map(|_| Member::new()).collect(),
            formation: Formation::new(),
            tokens: Tokens::new(names.len()),
            names,
            queues: Queues::new(),
            rng: fastrand::Rng::with_seed(seed),
            longest_ttl,
            out: Vec::new(),
            repairs: Repairs::new(),
            queue_entry_ttl: Tuning::default().queue_entry_ttl,
            rounds: HashMap::new(),
            next_round: 1,
            fences: 1,
        }
    }

    /// The effects since the last call.
    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.out)
    }

    /// Starts a round: sends an operation to all servers. Returns the number of the round, which its decision repeats.
    pub(super) fn begin(&mut self, now: Now, key: &Arc<str>, request: RoundOp) -> u64 {
        let id = self.next_round;
        self.next_round += 1;
        match request {
            RoundOp::Ask(op) => self.ask(now, id, key, op),
            RoundOp::Release(op) => self.leave(now, id, key, op),
            RoundOp::Renew(op) => {
                self.longest_ttl = self.longest_ttl.max(op.ttl);
                let lives = self.lives(op.ttl);
                if let Some(entry) = self.tokens.get(op.token) {
                    entry.until = entry.until.max(now.time.after(lives));
                    entry.rounds.push(id);
                }
                let round = self.round_of(now, key, request);
                self.put(now, id, round, Servers::all());
            }
        }
        id
    }

    pub(super) fn round_of(&self, now: Now, key: &Arc<str>, request: RoundOp) -> Round {
        Round::new(now.time, key.clone(), request, self.members.len())
    }

    /// The fencing tokens that a round proposes, if it requests any: the first, and their number.
    pub(super) fn proposal(&mut self, now: Now, op: &op::Ask) -> Option<(u64, u32)> {
        let op::Ask::Full(op::Acquire { fences, .. }) = *op else { return None };
        if fences == 0 {
            return None;
        }
        let first = self.fences.max(now.wall);
        self.fences = first.saturating_add(u64::from(fences));
        Some((first, fences))
    }

    /// Starts a round that releases the lock, or cancels the attempt to acquire it.
    fn leave(&mut self, now: Now, id: u64, key: &Arc<str>, op: op::Release) {
        let token = op.token;
        let entry = self.tokens.remove(token);
        if entry.as_ref().is_some_and(|entry| entry.held) {
            self.queues.releases(now.time, key, id);
        }
        self.queues.has_asked(token);
        // A quorum makes no gaps, so it does not count runs of hand-offs.
        let op = op::Release { handoffs_began: None, ..op };
        let mut round = self.round_of(now, key, RoundOp::Release(op));
        round.left = true;
        let mut with = Servers::all();
        if let Some(entry) = entry {
            self.end_repair(token, &entry.missing);
            // The other servers never received a command for the token.
            with = entry.touched;
            round.touched = entry.touched;
            self.abandon(now, entry.rounds);
        }
        self.put(now, id, round, with);
    }

    /// From now on, these rounds do nothing for their token.
    pub(super) fn abandon(&mut self, now: Now, rounds: Vec<u64>) {
        for id in rounds {
            if let Some(round) = self.rounds.get_mut(&id) {
                round.left = true;
            }
            self.widen(now, id);
        }
    }

    /// Starts a round at the servers in `to`. In an acquisition, the others are asked later. In a release, they have
    /// nothing to release.
    pub(super) fn put(&mut self, now: Now, id: u64, mut round: Round, to: Servers) {
        let mut nodes: Vec<usize> = order(&round.key, self.members.len()).collect();
        let acquires = round.acquires();
        if !acquires {
            // The queue server comes last. The waiter that it wakes immediately asks the other servers, which the
            // release should have reached by then.
            nodes.reverse();
        }
        let (now_asked, not_asked): (Vec<usize>, Vec<usize>) =
            nodes.into_iter().partition(|node| to.has(*node) || (!acquires && !self.members[*node].up));
        for node in not_asked {
            if acquires {
                round.not_asked.add(node);
            } else {
                round.answered(node, ServerReply::NotHeld, Standing::Counts);
            }
        }
        self.rounds.insert(id, round);
        for node in now_asked {
            self.put_to(now, id, node);
        }
        self.decide(now, id);
        let is_unanswered = self.rounds.get(&id).is_some_and(|round| round.under_way > 0);
        if !is_unanswered {
            self.widen(now, id);
        }
    }

    /// Sends one server its command, or counts the server as missing.
    pub(super) fn put_to(&mut self, now: Now, id: u64, node: usize) {
        let (Some(round), Some(member)) = (self.rounds.get_mut(&id), self.members.get(node)) else { return };
        if !member.up {
            let text = match &member.cause {
                Some(cause) => format!("{}: {cause}", self.names[node]),
                None => format!("not connected to {}", self.names[node]),
            };
            round.answered(node, failed(StoreError::new(Failure::NotSent, text)), Standing::Counts);
            return;
        }
        let (key, token, request, queue) = (round.key.clone(), round.token, round.request, round.queue);
        let proposal = round.proposal.map(|(first, count)| op::Fence { token, first, count });
        let ttl = round.ttl();
        round.touched.add(node);
        round.under_way += 1 + usize::from(proposal.is_some());
        let command = match request {
            RoundOp::Ask(op) => {
                let op = self.as_told(op, node, queue);
                self.tokens.asks_server(token, node, id, &op);
                MemberCommand::Ask(AskJob::Vote(id), op)
            }
            RoundOp::Release(op) => MemberCommand::Release(ReleaseJob::Vote(id), op),
            RoundOp::Renew(op) => MemberCommand::Renew(id, op),
        };
        if let Some(ttl) = ttl {
            self.note_ttl(node, ttl);
        }
        self.tell(now, node, &key, command);
        if let Some(op) = proposal {
            self.tell(now, node, &key, MemberCommand::Fence(FenceJob::Propose(id), op));
        }
    }

    pub(super) fn tell(&mut self, now: Now, node: usize, key: &Arc<str>, command: MemberCommand) {
        if let Some(member) = self.members.get_mut(node) {
            if member.unanswered == 0 {
                member.heard = Some(now.time);
            }
            member.unanswered += 1;
        }
        self.out.push(Effect::Send { node, key: key.clone(), command });
    }

    /// A server has replied, or will no longer reply.
    pub(super) fn answered(&mut self, now: Now, node: usize, answer: MemberReply) {
        if let Some(member) = self.members.get_mut(node) {
            member.heard = Some(now.time);
            member.unanswered = member.unanswered.saturating_sub(1);
        }
        match answer {
            MemberReply::Ask(AskJob::Vote(id), result) => self.has_voted_on_ask(now, node, id, result),
            MemberReply::Ask(AskJob::Repair(token), result) => self.repaired(now, node, token, &result),
            MemberReply::Release(ReleaseJob::Vote(id), result) => {
                let standing = self.standing(node);
                self.heard_release(now, node, id, &result);
                self.in_round(now, node, id, |round| round.answered(node, result.into(), standing));
            }
            MemberReply::Release(ReleaseJob::Compensate(release), result) => {
                self.given_back(now, node, release, &result);
            }
            MemberReply::Renew(id, result) => {
                if let Ok(RenewReply::Renewed { server_time }) = result {
                    self.look_at_clock(now, node, id, server_time);
                }
                let standing = self.standing(node);
                self.in_round(now, node, id, |round| round.answered(node, result.into(), standing));
            }
            MemberReply::Fence(FenceJob::Propose(id), result) => {
                if let Ok(FenceReply::Fenced { last }) = result {
                    self.fences = self.fences.max(last.saturating_add(1));
                    if let Some(member) = self.members.get_mut(node) {
                        member.has_counter(last);
                    }
                }
                self.in_round(now, node, id, |round| round.fenced(node, &result));
            }
            MemberReply::Fence(FenceJob::WriteBack(id, first), result) => {
                self.in_round(now, node, id, |round| {
                    round.written(node, first, &result);
                    false
                });
            }
            MemberReply::Release(ReleaseJob::Ignored, _) | MemberReply::Fence(FenceJob::Ignored, _) => {}
        }
    }

    /// Handles a server's reply in a round that requests a lock.
    fn has_voted_on_ask(&mut self, now: Now, node: usize, id: u64, result: OpResult<AcquireReply>) {
        if let Ok(reply) = &result {
            if let Some(server_time) = reply.server_time() {
                self.look_at_clock(now, node, id, server_time);
            }
            if let Some(round) = self.rounds.get(&id) {
                if reply.is_acquired() {
                    self.tokens.is_ours(round.token, node);
                } else {
                    self.tokens.is_not_ours(round.token, node);
                }
            }
        }
        let standing = self.standing(node);
        self.in_round(now, node, id, |round| round.answered(node, result.into(), standing));
    }

    fn standing(&self, node: usize) -> Standing {
        let counts = self.members.get(node).is_some_and(Member::counts);
        if counts { Standing::Counts } else { Standing::DoesNotCount }
    }

    fn look_at_clock(&mut self, now: Now, node: usize, id: u64, server_time: ServerTime) {
        if let (Some(round), Some(member)) = (self.rounds.get(&id), self.members.get_mut(node)) {
            let memory = member.heard_time(server_time, round.sent, now.time);
            self.heard_of_memory(now, node, memory);
        }
    }

    /// `take` returns `true` if it completes the server's reply.
    fn in_round(&mut self, now: Now, node: usize, id: u64, take: impl FnOnce(&mut Round) -> bool) {
        let Some(round) = self.rounds.get_mut(&id) else { return };
        round.under_way = round.under_way.saturating_sub(1);
        let complete = take(round);
        let (decided, written_back) = (round.decided, round.write_back.as_ref().map(|back| back.first));
        if decided && complete {
            self.has_come_late(now, id, node);
            self.follow_up(now, id, node);
        } else if let (Some(first), true) = (written_back, complete) {
            // Too late for the proposal, but it may help the write-back.
            self.write_back(now, id, first, Some(node));
        }
        self.decide(now, id);
        let is_unanswered = self.rounds.get(&id).is_some_and(|round| round.under_way > 0);
        if complete || !is_unanswered {
            self.widen(now, id);
        }
    }

    pub(super) fn decide(&mut self, now: Now, id: u64) {
        let Some(round) = self.rounds.get(&id) else { return };
        let before = if self.tokens.is_held(round.token) { Before::Held } else { Before::NotHeld };
        let given = self.tokens.fences_given(round.token);
        let Some(round) = self.rounds.get_mut(&id) else { return };
        round.above = given;
        let decision = if round.decided { None } else { round.decision(now.server_time(), before) };
        match decision {
            Some(Decision::WriteBack { first }) => {
                // Two rounds may have seen the same highest counter, but every block of tokens must be used only once.
                let first = if mutated!(BlockGivenTwice) { first } else { first.max(self.fences) };
                if let Some(round) = self.rounds.get_mut(&id) {
                    round.begin_write_back(first);
                }
                self.write_back(now, id, first, None);
                // No server can be asked, so the round ends here.
                return self.decide(now, id);
            }
            Some(Decision::Done(outcome)) => {
                let lost = (matches!(outcome, RoundOutcome::Renew(Ok(RenewReply::NotHeld))) && !round.left)
                    .then(|| (round.key.clone(), round.token));
                self.conclude(now, id, outcome);
                if let Some((key, token)) = lost {
                    self.give_back_what_is_left(now, id, &key, token);
                }
            }
            None => {}
        }
        if let Some(round) = self.rounds.get(&id)
            && round.decided
            && round.under_way == 0
        {
            let token = round.token;
            self.rounds.remove(&id);
            if let Some(entry) = self.tokens.get(token) {
                entry.rounds.retain(|round| *round != id);
            }
        }
    }

    /// Raises the counter of one server, or the counters of all servers on which this process holds the lock.
    fn write_back(&mut self, now: Now, id: u64, first: u64, only: Option<usize>) {
        for node in (0..self.members.len()).filter(|node| only.is_none_or(|only| only == *node)) {
            let Some(round) = self.rounds.get_mut(&id) else { return };
            let Some((_, count)) = round.proposal else { return };
            self.fences = self.fences.max(first.saturating_add(u64::from(count)));
            if !matches!(round.reply(node), ServerReply::Ours { .. }) {
                continue;
            }
            if self.members[node].up {
                round.under_way += 1;
                let (key, op) = (round.key.clone(), op::Fence { token: round.token, first, count });
                self.tell(now, node, &key, MemberCommand::Fence(FenceJob::WriteBack(id, first), op));
            } else {
                round.written(node, first, &Err(StoreError::new(Failure::NotSent, "not connected")));
            }
        }
    }

    /// The round is decided: reports it, and does the follow-up at the servers that have replied.
    fn conclude(&mut self, now: Now, id: u64, outcome: RoundOutcome) {
        let Some(round) = self.rounds.get_mut(&id) else { return };
        let succeeded = outcome.is_success();
        round.decided = true;
        round.succeeded = succeeded;
        let (token, left) = (round.token, round.left);
        if let (RoundOutcome::Renew(_), true, Some(ttl)) = (&outcome, succeeded, round.ttl())
            && let Some(entry) = self.tokens.get(token)
        {
            entry.leased_until = entry.leased_until.max(Some(round.sent.after(ttl)));
        }
        let rounds = &self.rounds;
        self.queues.keep_waiting_for(|round| rounds.get(&round).is_some_and(|round| !round.decided));
        let mut failed_ask = None;
        let outcome = match outcome {
            RoundOutcome::Ask(Ok(
                AcquireReply::Acquired { fence, .. } | AcquireReply::AlreadyHeld { fence, .. },
            )) if !left => {
                self.now_held(id, fence);
                outcome
            }
            RoundOutcome::Ask(result) if !left => {
                if let Some(entry) = self.tokens.get(token) {
                    entry.open = entry.open.saturating_sub(1);
                }
                failed_ask = Some(token);
                RoundOutcome::Ask(self.asked_in_vain(now, id, result))
            }
            other => other,
        };
        self.out.push(Effect::Done { round: id, outcome });
        for node in 0..self.members.len() {
            self.follow_up(now, id, node);
        }
        if let Some(token) = failed_ask {
            self.give_up_in_vain(now, id);
            self.forget_if_idle(token);
        }
    }

    /// This round has acquired the lock.
    fn now_held(&mut self, id: u64, fence: Option<u64>) {
        let Some(round) = self.rounds.get(&id) else { return };
        let Some(entry) = self.tokens.get(round.token) else { return };
        if let (Some(first), Some((_, count))) = (fence, round.proposal) {
            entry.fences_given = entry.fences_given.max(first.saturating_add(u64::from(count)));
            entry.fence_block = Some((first, count));
        }
        if let Some(ttl) = round.ttl() {
            entry.leased_until = entry.leased_until.max(Some(round.sent.after(ttl)));
        }
        for (node, answer) in round.answers.iter().enumerate() {
            if !matches!(answer.reply, ServerReply::Ours { .. }) {
                entry.missing.add(node);
            }
        }
        entry.is_held();
    }

    pub(super) fn round_mut(&mut self, id: u64) -> Option<&mut Round> {
        self.rounds.get_mut(&id)
    }

    pub(super) fn round(&self, id: u64) -> Option<&Round> {
        self.rounds.get(&id)
    }

    /// How long a server may keep data of a token: a lease of `ttl`, or a place in the queue.
    pub(super) fn lives(&self, ttl: Duration) -> Duration {
        let longest = ttl.max(self.queue_entry_ttl);
        longest + drift(longest) + LATE_COMMANDS
    }

    /// Forgets an attempt that has nothing on any server: it did not queue, and no round for it is open.
    fn forget_if_idle(&mut self, token: Token) {
        let idle = self.tokens.get(token).is_some_and(|entry| entry.open == 0 && !entry.held && !entry.waits);
        if idle {
            self.tokens.remove(token);
        }
    }

    /// When the earliest timer is due.
    pub(super) fn next_due(&self) -> Option<Time> {
        let release = self.members.iter().filter_map(Member::next_due).min();
        [release, self.membership_due(), self.queues.next_due(), self.repairs_due()]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn fire(&mut self, now: Now) {
        self.fire_queues(now);
        self.fire_repairs(now);
        for node in 0..self.members.len() {
            self.retry_releases(now, node, Occasion::Timer);
        }
        self.fire_membership(now);
    }

    /// Describes the unfinished work. `None`: there is none.
    #[cfg(test)]
    pub(super) fn unfinished(&self) -> Option<String> {
        let release: Vec<_> =
            self.members.iter().flat_map(|member| member.pending_releases.values()).collect();
        let idle = self.rounds.is_empty() && self.tokens.is_empty() && release.is_empty();
        (!idle).then(|| format!("{:?} {:?} {release:?}", self.rounds, self.tokens))
    }
}
