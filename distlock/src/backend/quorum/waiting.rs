//! Asking for a lock, and waiting for it.
//!
//! 1. Who wants a key that others want asks its queue server alone. `Busy` there ends the round: the token is queued.
//! 2. Everybody else asks all servers: who finds the queue server's lock free or is handed it (the others are asked
//!    once that is known), who has waited for a heartbeat, who asks once, who finds the queue server silent, and who
//!    has no reason to believe that somebody else wants the key.
//! 3. Who has the queue server's lock and no majority keeps it and asks again, a few times: the release that has
//!    freed it is still on its way to the others. Everything else that is ours in vain is given back.
//! 4. If somebody else has a majority nevertheless, the queue server's lock is kept from everybody for a while, so
//!    that its holder can take it there ([`repair`](super::repair)).
//! 5. When the queue server is lost, or does not reach us with its news, whoever waits there asks all servers, and
//!    is queued on the next one.

use std::sync::Arc;
use std::time::Duration;

use super::super::{AcquireMode, Op, OpResult, Push, Pushes, Reply, ServerTime};
use super::coordinator::Coordinator;
use super::effect::{Effect, Job, Now};
use super::follow_up::leave;
use super::queue::{SILENT, order};
use super::round::ServerReply;
use super::servers::Servers;
use crate::protocol::mutated;

/// Who has the queue server's lock asks again after this time, twice as long each time …
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// … so many times.
const MOST_AGAIN: u32 = 7;
/// For how long the queue server's lock is kept from everybody: longer than a repair pauses, and twice as long each
/// time …
const FIRST_ASIDE: Duration = Duration::from_millis(300);
/// … up to this. Shorter than a heartbeat.
const LONGEST_ASIDE: Duration = Duration::from_secs(1);
/// Whoever has kept it from everybody asks again so much later than that ends: after the holder.
const YIELD: Duration = Duration::from_millis(100);
/// Those who waited at a server that is lost ask all others within this time.
const SPREAD: Duration = Duration::from_millis(20);

impl Coordinator {
    /// Where waiters of this key queue: where we would hear of it, and not at a server that is silent.
    pub(super) fn queue_server(&self, now: Now, key: &str) -> Option<usize> {
        let hears = |node: &usize| {
            self.members.get(*node).is_some_and(|member| member.up && member.pushes == Pushes::On)
        };
        let silent = |node: &usize| {
            self.members.get(*node).is_some_and(|member| member.is_silent(now.time, SILENT))
                && !mutated!(QueueServerSilenceIgnored)
        };
        let usable = || order(key, self.members.len()).filter(hears);
        usable().find(|node| !silent(node)).or_else(|| usable().next())
    }

    /// Begins a round that asks for the lock.
    pub(super) fn ask(&mut self, now: Now, id: u64, key: &Arc<str>, op: Op) {
        let (Op::TryAcquire { token, ttl } | Op::Acquire { token, ttl, .. }) = op else { return };
        self.longest_ttl = self.longest_ttl.max(ttl);
        let lives = self.lives(ttl);
        self.tokens.asks(now.time, key, token, id, ttl, lives);
        self.queues.has_asked(token);
        // What an earlier round asks comes first, everywhere: only one of them may find the lock free.
        for earlier in self.tokens.rounds(token) {
            self.widen(now, earlier);
        }
        let queue = self.queue_server(now, key);
        let alone = queue.filter(|_| self.asks_alone(now, key, &op));
        let mut round = self.round_of(now, key, op);
        round.queue = queue;
        round.proposal = self.proposal(now, &round.op);
        self.put(now, id, round, alone.map_or(Servers::all(), Servers::only));
        if self.round(id).is_some_and(|round| !round.decided) {
            self.queues.expects(now.time, id);
        }
    }

    /// Whether the queue server is asked before the others.
    fn asks_alone(&self, now: Now, key: &str, op: &Op) -> bool {
        let stands_back = self.queues.stands_back(now.time, key);
        match *op {
            Op::Acquire { token, mode: AcquireMode::Wait, .. } => {
                (stands_back || self.queues.is_wanted(now.time, key)) && !self.tokens.is_held(token)
            }
            Op::Acquire { token, mode: AcquireMode::Try, .. } | Op::TryAcquire { token, .. } => {
                stands_back && !self.tokens.is_held(token)
            }
            _ => false,
        }
    }

    /// What one server is told: it queues the token only if it is the one, or has done so before.
    pub(super) fn as_told(&self, op: &Op, node: usize, queue: Option<usize>) -> Op {
        let mut op = op.clone();
        if let Op::Acquire { token, mode, fences, .. } = &mut op {
            *fences = 0;
            let hears = self.members.get(node).is_some_and(|member| member.pushes == Pushes::On);
            let waits = queue == Some(node) || self.tokens.is_queued(*token, node);
            if !(hears && waits) {
                *mode = AcquireMode::Try;
            }
        }
        op
    }

    /// Asks the servers that this round has not asked yet.
    pub(super) fn widen(&mut self, now: Now, id: u64) {
        let Some(round) = self.round_mut(id) else { return };
        if round.decided || round.not_asked.is_empty() {
            return;
        }
        let (rest, left, key) = (std::mem::take(&mut round.not_asked), round.left, round.key.clone());
        for node in order(&key, self.members.len()).filter(|node| rest.has(*node)) {
            if !left {
                self.put_to(now, id, node);
            } else if let Some(round) = self.round_mut(id) {
                // It would overtake what was sent to give the token back.
                round.not_sent(node);
            }
        }
        self.decide(now, id);
    }

    /// What a server says about a round that gives the lock back.
    pub(super) fn heard_release(&mut self, now: Now, node: usize, id: u64, result: &OpResult) {
        let Some(key) = self.round(id).filter(|round| round.left).map(|round| round.key.clone()) else {
            return;
        };
        match result {
            Ok(Reply::Released { gap: true }) => self.queues.others_want(now.time, &key),
            Ok(_) if self.queue_server(now, &key) == Some(node) => self.queues.nobody_waits(&key, id),
            _ => {}
        }
    }

    /// A server says that the lock is ours there, or (an earlier version of us has released it) free.
    pub(super) fn heard(&mut self, now: Now, node: usize, push: Push) {
        let is_grant = matches!(push, Push::Grant { .. });
        let (Push::Gap { key, token } | Push::Grant { key, token, .. }) = push;
        let Some(entry) = self.tokens.get(token) else {
            // Too late for us: it is the next one's.
            if self.is_there(node) {
                self.tell(now, node, Job::Ignored, &key, leave(token));
            }
            return;
        };
        entry.queued.remove(node);
        if entry.held {
            return self.repair(now, node, &key, token);
        }
        entry.woken = true;
        if is_grant {
            entry.ours.add(node);
        }
        if entry.open == 0 {
            self.out.push(Effect::Push(Push::Gap { key, token }));
        }
    }

    /// A round that asked for the lock is over, in vain: sees to it that the waiter asks again in time. Returns what
    /// it is told.
    pub(super) fn asked_in_vain(&mut self, now: Now, id: u64, result: OpResult) -> OpResult {
        let Some(round) = self.round(id) else { return result };
        let (token, key, queues) = (round.token, round.key.clone(), round.queues());
        let queue = round.queue.filter(|_| queues);
        if result.is_ok() {
            self.queues.others_want(now.time, &key);
        }
        let Some(entry) = self.tokens.get(token).filter(|entry| !entry.held) else { return result };
        entry.waits |= queues;
        // Another round of the same token is open: that one decides.
        if entry.open > 0 {
            return result;
        }
        let told = std::mem::take(&mut entry.woken);
        let is_busy = matches!(result, Ok(Reply::Busy { .. }));
        let Some(node) = queue.filter(|node| is_busy && entry.ours.has(*node)) else {
            (entry.again, entry.aside, entry.kept) = (0, 0, Servers::default());
            if told {
                self.queues.ask_again_at(now.time, token);
            }
            return result;
        };
        self.has_queue_server_only(now, id, node);
        result
    }

    /// The queue server's lock turned out to be ours when the round was over already, in vain.
    pub(super) fn has_come_late(&mut self, now: Now, id: u64, node: usize) {
        let Some(round) = self.round(id).filter(|round| round.queues() && !round.succeeded && !round.left)
        else {
            return;
        };
        let is_first = round.queue == Some(node) && matches!(round.reply(node), ServerReply::Ours { .. });
        let token = round.token;
        if !is_first || self.tokens.asked_later(token, node, id) {
            return;
        }
        if self.tokens.get(token).is_some_and(|entry| entry.waits && entry.open == 0 && !entry.held) {
            self.has_queue_server_only(now, id, node);
        }
    }

    /// The queue server's lock is ours, and a majority is not: keeps it and asks again, or gives it up.
    fn has_queue_server_only(&mut self, now: Now, id: u64, node: usize) {
        let Some(round) = self.round_mut(id) else { return };
        // Once for each round, however late the server answers.
        round.queue = None;
        let (key, token, taken) = (round.key.clone(), round.token, round.may_be_taken());
        let until = self.gone_by(now);
        let Some(entry) = self.tokens.get(token) else { return };
        if entry.again < MOST_AGAIN && !(taken && entry.aside > 0) && !mutated!(QueueServerNotKept) {
            let pause = FIRST_PAUSE * (1 << entry.again);
            entry.again += 1;
            entry.kept = Servers::only(node);
            let pause = pause / 2 + self.at_most(pause / 2);
            return self.queues.ask_again_at(now.time.after(pause), token);
        }
        (entry.again, entry.kept) = (0, Servers::default());
        if taken && !mutated!(NobodyStandsAside) {
            // Nobody gets it for a while: who holds the lock asks for it there.
            let pause = FIRST_ASIDE.saturating_mul(1 << entry.aside.min(8)).min(LONGEST_ASIDE);
            entry.aside = entry.aside.saturating_add(1);
            entry.ours.remove(node);
            let job = Job::Compensate { key: key.clone(), token, round: id, until };
            self.tell(
                now,
                node,
                job,
                &key,
                Op::Release { token, keep_taken_for: Some(pause), handoffs_began: ServerTime(0) },
            );
            let pause = pause + YIELD + self.at_most(SPREAD);
            self.queues.ask_again_at(now.time.after(pause), token);
        }
    }

    fn at_most(&mut self, most: Duration) -> Duration {
        Duration::from_micros(self.rng.u64(0..=u64::try_from(most.as_micros()).unwrap_or(0)))
    }

    /// Whoever waits at this server is not told any more, or may have been told in vain: asks all of them.
    pub(super) fn move_on(&mut self, now: Now, node: usize) {
        if mutated!(LostQueueNotLeft) {
            return;
        }
        for token in self.tokens.queued_at(node) {
            let at = now.time.after(self.at_most(SPREAD));
            self.queues.ask_again_at(at, token);
        }
    }

    /// A round has not been decided for a while: asks the others, too, or goes on without those who are silent.
    fn is_overdue(&mut self, now: Now, id: u64) {
        let Some(round) = self.round_mut(id).filter(|round| !round.decided) else { return };
        let asked_alone = !round.not_asked.is_empty();
        if !asked_alone && !mutated!(SilentServersAwaited) {
            round.is_overdue();
            self.decide(now, id);
        } else if asked_alone && !mutated!(QueueServerSilenceIgnored) {
            self.widen(now, id);
        }
        if self.round(id).is_some_and(|round| !round.decided) {
            self.queues.expects(now.time, id);
        }
    }

    /// Tells waiters to ask again, and gives up on queue servers that do not answer.
    pub(super) fn fire_queues(&mut self, now: Now) {
        while let Some(id) = self.queues.next_overdue(now.time) {
            self.is_overdue(now, id);
        }
        for token in self.queues.take_due(now.time) {
            if let Some(entry) = self.tokens.get(token)
                && entry.open == 0
                && !entry.held
            {
                let key = entry.key.clone();
                self.out.push(Effect::Push(Push::Gap { key, token }));
            }
        }
    }
}
