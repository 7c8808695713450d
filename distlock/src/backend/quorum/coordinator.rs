//! Sends every operation to all servers and decides by what a majority answers. Pure: time and replies come
//! in, commands and decisions go out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::{Failure, LATE_COMMANDS_BOUND, Op, OpError, OpResult, Reply, ServerTime, Token, Tuning};
use super::effect::{Effect, Job, Now};
use super::formation::Formation;
use super::member::{Member, PendingRelease};
use super::missing::Repairs;
use super::queue::{Queues, order};
use super::round::{Decision, Round, ServerReply};
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
    /// The longest lease that may be on any server, as far as we know.
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
    /// For the servers with these names. `longest_ttl`: the longest ttl of the leases of this deployment.
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

    /// Starts a round: sends an operation to all servers. Returns the number under which the round will be
    /// decided.
    pub(super) fn begin(&mut self, now: Now, key: &Arc<str>, op: Op) -> u64 {
        let id = self.next_round;
        self.next_round += 1;
        match op {
            Op::TryAcquire { .. } | Op::Acquire { .. } => self.ask(now, id, key, op),
            Op::Release { token, keep_taken_for, .. } => {
                self.leave(
                    now,
                    id,
                    key,
                    Op::Release { token, keep_taken_for, handoffs_began: ServerTime(0) },
                );
            }
            Op::Renew { token, ttl, .. } => {
                self.longest_ttl = self.longest_ttl.max(ttl);
                let lives = self.lives(ttl);
                if let Some(entry) = self.tokens.get(token) {
                    entry.until = entry.until.max(now.time.after(lives));
                    entry.rounds.push(id);
                }
                let round = self.round_of(now, key, op);
                self.put(now, id, round, Servers::all());
            }
            Op::Fence { .. } => {
                let round = self.round_of(now, key, op);
                self.put(now, id, round, Servers::all());
            }
        }
        id
    }

    pub(super) fn round_of(&self, now: Now, key: &Arc<str>, op: Op) -> Round {
        Round::new(now.time, key.clone(), op, self.members.len())
    }

    /// The fencing tokens that a round proposes, if it wants any: the first, and their number.
    pub(super) fn proposal(&mut self, now: Now, op: &Op) -> Option<(u64, u32)> {
        let Op::Acquire { fences, .. } = *op else { return None };
        if fences == 0 {
            return None;
        }
        let first = self.fences.max(now.wall);
        self.fences = first.saturating_add(u64::from(fences));
        Some((first, fences))
    }

    /// Starts a round that releases the lock, or cancels the attempt to acquire it.
    fn leave(&mut self, now: Now, id: u64, key: &Arc<str>, op: Op) {
        let token = op.token();
        let entry = self.tokens.remove(token);
        if entry.as_ref().is_some_and(|entry| entry.held) {
            self.queues.releases(now.time, key, id);
        }
        self.queues.has_asked(token);
        let mut round = self.round_of(now, key, op);
        round.left = true;
        let mut with = Servers::all();
        if let Some(entry) = entry {
            self.end_repair(token, &entry.missing);
            // The other servers have nothing of it.
            with = entry.touched;
            round.touched = entry.touched;
            self.abandon(now, entry.rounds);
        }
        self.put(now, id, round, with);
    }

    /// These rounds must do nothing more for their token.
    pub(super) fn abandon(&mut self, now: Now, rounds: Vec<u64>) {
        for id in rounds {
            if let Some(round) = self.rounds.get_mut(&id) {
                round.left = true;
            }
            self.widen(now, id);
        }
    }

    /// Starts a round at the servers in `to`. In an acquisition the others are asked later; in a release they
    /// have nothing to release.
    pub(super) fn put(&mut self, now: Now, id: u64, mut round: Round, to: Servers) {
        let mut nodes: Vec<usize> = order(&round.key, self.members.len()).collect();
        let acquires = round.acquires();
        if !acquires {
            // The queue server comes last: the waiter that it wakes asks the other servers at once, and the
            // release should have reached them by then.
            nodes.reverse();
        }
        let (now_asked, not_asked): (Vec<usize>, Vec<usize>) =
            nodes.into_iter().partition(|node| to.has(*node) || (!acquires && !self.members[*node].up));
        for node in not_asked {
            if acquires {
                round.not_asked.add(node);
            } else {
                round.answered(node, Ok(Reply::NotHeld), true);
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
            round.answered(node, Err(OpError::new(Failure::NotSent, text)), true);
            return;
        }
        let (key, token, op, queue) = (round.key.clone(), round.token, round.op.clone(), round.queue);
        let proposal = round.proposal.map(|(first, count)| Op::Fence { token, first, count });
        let ttl = round.ttl();
        round.touched.add(node);
        round.under_way += 1 + usize::from(proposal.is_some());
        let acquires = round.acquires();
        let op = self.as_told(&op, node, queue);
        if acquires {
            self.tokens.asks_server(token, node, id, &op);
        }
        if let Some(ttl) = ttl {
            self.note_ttl(node, ttl);
        }
        self.tell(now, node, Job::Vote(id), &key, op);
        if let Some(op) = proposal {
            self.tell(now, node, Job::Propose(id), &key, op);
        }
    }

    pub(super) fn tell(&mut self, now: Now, node: usize, job: Job, key: &Arc<str>, op: Op) {
        if let Some(member) = self.members.get_mut(node) {
            if member.unanswered == 0 {
                member.heard = now.time;
            }
            member.unanswered += 1;
        }
        self.out.push(Effect::Send { node, job, key: key.clone(), op });
    }

    /// A server has replied, or will not reply any more.
    pub(super) fn answered(&mut self, now: Now, node: usize, job: Job, result: OpResult) {
        if let Some(member) = self.members.get_mut(node) {
            member.heard = now.time;
            member.unanswered = member.unanswered.saturating_sub(1);
        }
        if let Job::Vote(id) = job {
            self.look_at_clock(now, node, id, &result);
        }
        let counts = self.members.get(node).is_some_and(Member::counts);
        match job {
            Job::Vote(id) => {
                self.heard_release(now, node, id, &result);
                if let (Some(round), Ok(reply)) =
                    (self.rounds.get(&id).filter(|round| round.acquires()), &result)
                {
                    self.tokens.said(round.token, node, reply.is_acquired());
                }
                self.in_round(now, node, id, |round| round.answered(node, result, counts));
            }
            Job::Propose(id) => {
                if let Ok(Reply::Fenced { last }) = &result {
                    self.fences = self.fences.max(last.saturating_add(1));
                    if let Some(member) = self.members.get_mut(node) {
                        member.has_counter(*last);
                    }
                }
                self.in_round(now, node, id, |round| round.fenced(node, result));
            }
            Job::WriteBack(id, first) => {
                self.in_round(now, node, id, |round| {
                    round.written(node, first, &result);
                    false
                });
            }
            Job::Compensate { key, token, round, until } => {
                self.given_back(
                    now,
                    node,
                    PendingRelease { key, token, round, at: Time::MAX, until },
                    &result,
                );
            }
            Job::Repair(token) => self.repaired(now, node, token, &result),
            Job::Ignored => {}
        }
    }

    fn look_at_clock(&mut self, now: Now, node: usize, id: u64, result: &OpResult) {
        let server_time = match result {
            Ok(
                Reply::Acquired { server_time, .. }
                | Reply::AlreadyHeld { server_time, .. }
                | Reply::Busy { server_time, .. },
            ) => *server_time,
            Ok(Reply::Renewed { server_time }) => Some(*server_time),
            _ => None,
        };
        if let (Some(server_time), Some(round), Some(member)) =
            (server_time, self.rounds.get(&id), self.members.get_mut(node))
        {
            let memory = member.heard_time(server_time, round.sent, now.time);
            self.heard_of_memory(now, node, memory);
        }
    }

    /// `take` returns true if it completes the server's reply.
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
        let held = self.tokens.is_held(round.token);
        let given = self.tokens.fences_given(round.token);
        let Some(round) = self.rounds.get_mut(&id) else { return };
        round.above = given;
        let decision = if round.decided { None } else { round.decision(now.server_time(), held) };
        match decision {
            Some(Decision::WriteBack { first }) => {
                // Two rounds may have seen the same highest counter, but every block must be given out only
                // once.
                let first = if mutated!(BlockGivenTwice) { first } else { first.max(self.fences) };
                if let Some(round) = self.rounds.get_mut(&id) {
                    round.begin_write_back(first);
                }
                self.write_back(now, id, first, None);
                // No server is left to ask: the round ends here.
                return self.decide(now, id);
            }
            Some(Decision::Succeeded(Reply::NotHeld)) => {
                let lost = (matches!(round.op, Op::Renew { .. }) && !round.left)
                    .then(|| (round.key.clone(), round.token));
                self.conclude(now, id, false, Ok(Reply::NotHeld));
                if let Some((key, token)) = lost {
                    self.give_back_what_is_left(now, id, &key, token);
                }
            }
            Some(Decision::Succeeded(reply)) => self.conclude(now, id, true, Ok(reply)),
            Some(Decision::Rejected(result)) => self.conclude(now, id, false, result),
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

    /// Raises the counter of one server, or those of all servers where the lock is ours.
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
                let (key, op) = (round.key.clone(), Op::Fence { token: round.token, first, count });
                self.tell(now, node, Job::WriteBack(id, first), &key, op);
            } else {
                round.written(node, first, &Err(OpError::new(Failure::NotSent, "not connected")));
            }
        }
    }

    /// The round is decided: reports it, and does the follow-up at the servers that have replied.
    fn conclude(&mut self, now: Now, id: u64, succeeded: bool, result: OpResult) {
        let Some(round) = self.rounds.get_mut(&id) else { return };
        round.decided = true;
        round.succeeded = succeeded;
        let (token, asks) = (round.token, round.acquires() && !round.left);
        let renewed = matches!(round.op, Op::Renew { .. }) && succeeded;
        if let Some(ttl) = round.ttl().filter(|_| renewed)
            && let Some(entry) = self.tokens.get(token)
        {
            entry.leased_until = entry.leased_until.max(round.sent.after(ttl));
        }
        let rounds = &self.rounds;
        self.queues.keep_waiting_for(|round| rounds.get(&round).is_some_and(|round| !round.decided));
        let result = match (asks, succeeded) {
            (true, true) => {
                self.now_held(id, &result);
                result
            }
            (true, false) => {
                if let Some(entry) = self.tokens.get(token) {
                    entry.open = entry.open.saturating_sub(1);
                }
                self.asked_in_vain(now, id, result)
            }
            (false, _) => result,
        };
        self.out.push(Effect::Done { round: id, result });
        for node in 0..self.members.len() {
            self.follow_up(now, id, node);
        }
        if asks && !succeeded {
            self.give_up_in_vain(now, id);
            self.forget_if_idle(token);
        }
    }

    /// This round has acquired the lock.
    fn now_held(&mut self, id: u64, result: &OpResult) {
        let Some(round) = self.rounds.get(&id) else { return };
        let Some(entry) = self.tokens.get(round.token) else { return };
        let fence = match result {
            Ok(Reply::Acquired { fence, .. } | Reply::AlreadyHeld { fence, .. }) => *fence,
            _ => None,
        };
        if let (Some(first), Some((_, count))) = (fence, round.proposal) {
            entry.fences_given = entry.fences_given.max(first.saturating_add(u64::from(count)));
            entry.fence_block = Some((first, count));
        }
        if let Some(ttl) = round.ttl() {
            entry.leased_until = entry.leased_until.max(round.sent.after(ttl));
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

    /// How long something of a token may stay on a server: a lease of `ttl`, or a place in the queue.
    pub(super) fn lives(&self, ttl: Duration) -> Duration {
        let longest = ttl.max(self.queue_entry_ttl);
        longest + drift(longest) + LATE_COMMANDS_BOUND
    }

    /// Forgets an attempt of which nothing is left: it did not queue, and no round for it is open.
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
            self.retry_releases(now, node, false);
        }
        self.fire_membership(now);
    }

    /// Describes what is still under way; `None`: nothing is.
    #[cfg(test)]
    pub(super) fn unfinished(&self) -> Option<String> {
        let release: Vec<_> =
            self.members.iter().flat_map(|member| member.pending_releases.values()).collect();
        let idle = self.rounds.is_empty() && self.tokens.is_empty() && release.is_empty();
        (!idle).then(|| format!("{:?} {:?} {release:?}", self.rounds, self.tokens))
    }
}
