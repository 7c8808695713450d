//! Requests a lock, and waits for it.
//!
//! 1. If other processes want the key, a request asks the key's queue server alone. If that replies `Busy`,
//!    the round ends: the token is queued there.
//! 2. A request asks all servers in every other case: the queue server's lock was free or was granted to it
//!    (the others are asked once that is known), it has waited for a heartbeat, it does not wait, the queue
//!    server is silent, or no other process is known to want the key.
//! 3. A token that has the queue server's lock but no majority keeps it and asks again, a few times, because the
//!    release of the key is still on its way to the other servers. All other acquisitions without a majority are
//!    released.
//! 4. If another token has a majority nevertheless, the queue server's lock is blocked for a while, so that
//!    only that token can acquire it there ([`repair`](super::repair)).
//! 5. When the queue server is lost, or its pushes do not reach us, its waiters ask all servers and are
//!    queued on the next one.

use std::sync::Arc;
use std::time::Duration;

use super::super::{AcquireMode, AcquireReply, Notifications, OpResult, Push, ReleaseReply, op};
use super::coordinator::Coordinator;
use super::effect::{Effect, MemberCommand, MemberRelease, Now, ReleaseJob, RoundOp};
use super::follow_up::leave;
use super::queue::{SILENT_AFTER, order};
use super::server_reply::ServerReply;
use super::servers::Servers;
use crate::protocol::{When, mutated};

/// A waiter that has only the queue server's lock asks the others again after this time, then after twice as long, and
/// so on.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// How many times it asks again.
const MOST_AGAIN: u32 = 7;
/// How long the queue server's lock is blocked at first: longer than the pause between repairs. Each further block
/// lasts twice as long.
const FIRST_ASIDE: Duration = Duration::from_millis(300);
/// The longest such block: shorter than a heartbeat.
const LONGEST_ASIDE: Duration = Duration::from_secs(1);
/// The token that has blocked it asks again this long after the block ends: after the holder.
const DELAY_AFTER_BLOCK: Duration = Duration::from_millis(100);
/// The waiters of a lost queue server ask all other servers within this time.
const MAX_SPREAD: Duration = Duration::from_millis(20);

impl Coordinator {
    /// The server where waiters of this key queue: one that can push to us and is not silent.
    pub(super) fn queue_server(&self, now: Now, key: &str) -> Option<usize> {
        let hears = |node: &usize| {
            self.members.get(*node).is_some_and(|member| member.up && member.pushes == Notifications::On)
        };
        let silent = |node: &usize| {
            self.members.get(*node).is_some_and(|member| member.is_silent(now.time, SILENT_AFTER))
                && !mutated!(QueueServerSilenceIgnored)
        };
        let usable = || order(key, self.members.len()).filter(hears);
        usable().find(|node| !silent(node)).or_else(|| usable().next())
    }

    /// Starts a round that asks for the lock.
    pub(super) fn ask(&mut self, now: Now, id: u64, key: &Arc<str>, op: op::Ask) {
        let (token, ttl) = (op.token(), op.ttl());
        self.longest_ttl = self.longest_ttl.max(ttl);
        let lives = self.lives(ttl);
        self.tokens.asks(now.time, key, token, id, ttl, lives);
        self.queues.has_asked(token);
        // The commands of earlier rounds come first on every server: only one of the rounds may find the lock
        // free.
        for earlier in self.tokens.rounds(token) {
            self.widen(now, earlier);
        }
        let queue = self.queue_server(now, key);
        let alone = queue.filter(|_| self.asks_alone(now, key, &op));
        let mut round = self.round_of(now, key, RoundOp::Ask(op));
        round.queue = queue;
        round.proposal = self.proposal(now, &op);
        self.put(now, id, round, alone.map_or(Servers::all(), Servers::only));
        if self.round(id).is_some_and(|round| !round.decided) {
            self.queues.expects(now.time, id);
        }
    }

    /// Whether the queue server is asked before the others.
    fn asks_alone(&self, now: Now, key: &str, op: &op::Ask) -> bool {
        let stands_back = self.queues.stands_back(now.time, key);
        let mode = match op {
            op::Ask::Plain(_) => AcquireMode::Try,
            op::Ask::Full(op) => op.mode,
        };
        let others_first = match mode {
            AcquireMode::Wait => stands_back || self.queues.is_wanted(now.time, key),
            AcquireMode::Try => stands_back,
            AcquireMode::Poll | AcquireMode::WaitAgain | AcquireMode::PollAgain => false,
        };
        others_first && !self.tokens.is_held(op.token())
    }

    /// The command for one server: only the queue server queues the token, or a server that has queued it
    /// before.
    pub(super) fn as_told(&self, mut op: op::Ask, node: usize, queue: Option<usize>) -> op::Ask {
        if let op::Ask::Full(op::Acquire { token, mode, fences, .. }) = &mut op {
            *fences = 0;
            let hears = self.members.get(node).is_some_and(|member| member.pushes == Notifications::On);
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
                // Not sent: it would overtake the release of the token.
                round.not_sent(node);
            }
        }
        self.decide(now, id);
    }

    /// A server's reply in a round that releases the lock.
    pub(super) fn heard_release(&mut self, now: Now, node: usize, id: u64, result: &OpResult<ReleaseReply>) {
        let Some(key) = self.round(id).filter(|round| round.left).map(|round| round.key.clone()) else {
            return;
        };
        match result {
            Ok(ReleaseReply::Released { gap: true }) => self.queues.others_want(now.time, &key),
            Ok(_) if self.queue_server(now, &key) == Some(node) => self.queues.nobody_waits(&key, id),
            _ => {}
        }
    }

    /// A push from a server: the lock is ours there or (released by an earlier version of this library) free.
    pub(super) fn heard(&mut self, now: Now, node: usize, push: Push) {
        let is_grant = matches!(push, Push::Grant { .. });
        let (key, token) = match push {
            Push::Gap { key, token } | Push::Grant { key, token, .. } => (key, token),
            // No lease of a quorum lingers.
            Push::Wanted { .. } => return,
        };
        let Some(entry) = self.tokens.get(token) else {
            // Too late for us: it goes to the next waiter.
            if self.is_there(node) {
                self.tell(now, node, &key, MemberCommand::Release(ReleaseJob::Ignored, leave(token)));
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

    /// A round that asked for the lock has failed: makes sure that the waiter asks again in time. Returns the
    /// waiter's result.
    pub(super) fn asked_in_vain(
        &mut self,
        now: Now,
        id: u64,
        result: OpResult<AcquireReply>,
    ) -> OpResult<AcquireReply> {
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
        let is_busy = matches!(result, Ok(AcquireReply::Busy { .. }));
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

    /// The queue server's lock was acquired, but the round had already failed.
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

    /// We have the queue server's lock, but no majority: keeps it and asks again, or gives it up.
    fn has_queue_server_only(&mut self, now: Now, id: u64, node: usize) {
        let Some(round) = self.round_mut(id) else { return };
        // Once for each round, however late the server replies.
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
            // The lock stays taken for a while, so that no waiter gets it: the holder of a majority acquires
            // it there.
            let pause = FIRST_ASIDE.saturating_mul(1 << entry.aside.min(8)).min(LONGEST_ASIDE);
            entry.aside = entry.aside.saturating_add(1);
            entry.ours.remove(node);
            let op = op::Release { keep_taken_for: Some(pause), ..leave(token) };
            let rest = MemberRelease { key: key.clone(), token, round: id, at: When::OnLinkUp, until };
            self.tell(now, node, &key, MemberCommand::Release(ReleaseJob::Compensate(rest), op));
            let pause = pause + DELAY_AFTER_BLOCK + self.at_most(MAX_SPREAD);
            self.queues.ask_again_at(now.time.after(pause), token);
        }
    }

    fn at_most(&mut self, most: Duration) -> Duration {
        Duration::from_micros(self.rng.u64(0..=u64::try_from(most.as_micros()).unwrap_or(0)))
    }

    /// The waiters at this server get no more pushes, or may have missed one: they ask all servers.
    pub(super) fn move_on(&mut self, now: Now, node: usize) {
        if mutated!(LostQueueNotLeft) {
            return;
        }
        for token in self.tokens.queued_at(node) {
            let at = now.time.after(self.at_most(MAX_SPREAD));
            self.queues.ask_again_at(at, token);
        }
    }

    /// A round was not decided in time: asks the other servers, too, or continues without those that are
    /// silent.
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

    /// Tells waiters to ask again, and gives up on queue servers that do not reply.
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
