//! Getting a lock: asking for it, standing in the queue, being granted it.

use std::sync::Arc;
use std::time::Duration;

use super::acquire_all::{BatchRole, Handled};
use super::key::Step;
use super::lease::Grant;
use super::{ACQUIRE_RESEND_AFTER, Context, Effect, LONGEST_CLAIM, MAX_FENCES, Outcome, Purpose};
use crate::protocol::{
    AcquireMode, Failure, Kind, MARK, Op, OpError, OpResult, Pushes, Remaining, Reply, ServerTime, Time,
    Token, lease_end, mutated,
};

/// Behind a client that cannot hand over, the front of the queue asks this often at first …
const FIRST_POLL_PAUSE: Duration = Duration::from_millis(10);
/// … and this often in the end.
const LONGEST_POLL_PAUSE: Duration = Duration::from_millis(100);
/// A server that refuses for now is asked this often in the end.
const LONGEST_REFUSAL_PAUSE: Duration = Duration::from_millis(500);
/// Spread of the processes that ask when a holder's lease runs out.
const EXPIRY_JITTER: Duration = Duration::from_millis(50);

/// One attempt to get a lock: at most one queue entry on the server, named by the token.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) token: Token,
    pub(super) kind: Kind,
    /// The latest `enter` (its number, when it was sent) while its answer is awaited.
    asked: Option<(u64, Time)>,
    /// The newest `enter` that was answered. Older answers say nothing new.
    seen: u64,
    /// An entry may stand in the queue on the server.
    pub(super) queued: bool,
    /// The fewest fencing tokens that any `enter` of this attempt reserved.
    fences: Option<u32>,
    claim: Duration,
    /// The server's time in a reply that found us queued, and when that was asked for.
    pair: Option<(ServerTime, Time)>,
    /// Who held the lock when the server last said so.
    pub(super) holder: Option<Arc<str>>,
    /// When the run of hand-offs began in which the lock was given to us, if it was.
    handoffs_began: ServerTime,
    ask_at: Option<Time>,
    polls: u32,
    /// How often in a row the server has refused for now.
    refusals: u32,
    /// Since when the server has not answered.
    pub(super) silent: Option<Time>,
    pub(super) cause: Option<OpError>,
    /// The lease was ours already at this time; the local chain began then.
    entered: Option<Time>,
    /// Commands whose outcome is unknown: no conclusive reply has come yet.
    open: u32,
    /// Some command has been carried out, or may have been, that leaves an entry in the queue.
    may_have_queued: bool,
    /// Since when answers have come too late to be of use.
    late_since: Option<Time>,
    /// Its first command, which was not answered, is one for several keys.
    pub(super) batch_role: Option<BatchRole>,
    /// The longest ttl that it has asked for.
    pub(super) longest: Duration,
}

impl Attempt {
    pub(super) fn new(token: Token, kind: Kind) -> Self {
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
            handoffs_began: ServerTime(0),
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

    pub(super) fn due(&self, link_is_down: bool) -> Time {
        let again = match self.asked {
            Some((_, at)) if !link_is_down => at.after(ACQUIRE_RESEND_AFTER),
            _ => Time::MAX,
        };
        self.ask_at.map_or(again, |at| at.min(again))
    }

    pub(super) fn may_be_applied(&self) -> bool {
        let queued = self.queued && !mutated!(QueuedNotCancelled);
        queued || self.open > 0 || self.entered.is_some()
    }

    /// A command was answered, or will not be. `queues`: it was to leave an entry in the queue.
    fn heard_of(&mut self, result: &OpResult, queues: bool) {
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

impl<W> Step<'_, W> {
    /// Sees to it that the first waiter gets in, now or later: here, if this process has a lease that can be
    /// shared, or by an attempt on the server. An attempt that serves nobody at the front is given up: those
    /// it was made for may have left, or may just have come in.
    pub(super) fn serve_here(&mut self) {
        self.join_readers();
        let wanted = self.state.waiters.front().map(|head| head.want.kind);
        let attempted = self.state.attempt.as_ref().map(|attempt| attempt.kind);
        let mut former = None;
        if attempted.is_some() && attempted != wanted {
            former = self.state.attempt.as_ref().map(|attempt| (attempt.silent, attempt.cause.clone()));
            self.abandon_attempt();
        }
        let kept_out = self.state.leases.iter().any(|lease| lease.grant.kind == Kind::Exclusive);
        if self.state.attempt.is_none() && !kept_out {
            self.first_attempt();
        }
        // A server that did not answer the former attempt has been silent since then for those who still wait.
        if let (Some((Some(silent), cause)), Some(attempt)) = (former, &mut self.state.attempt)
            && attempt.silent.is_some()
        {
            attempt.silent = Some(silent);
            attempt.cause = cause;
        }
    }

    fn first_attempt(&mut self) {
        let Some(head) = self.state.waiters.front() else { return };
        let kind = head.want.kind;
        if let Some(end) = self.env.hints.gap_ends(self.key, self.now)
            && head.want.wait_limit != super::WaitLimit::Once
        {
            return self.next_attempt(Some(end.duration_since(self.now)));
        }
        let mut attempt = Attempt::new(self.next_token(), kind);
        self.ask_first(&mut attempt);
        self.state.attempt = Some(Box::new(attempt));
    }

    /// Asks by the cheapest command that will do.
    pub(super) fn ask_first(&mut self, attempt: &mut Attempt) {
        let alone = self.state.leases.is_empty() && self.state.waiters.len() == 1;
        let plain = attempt.kind == Kind::Exclusive
            && alone
            && self.state.waiters.fenced() == 0
            && !self.env.hints.is_contended(self.key, self.now);
        if plain { self.ask_plainly(attempt) } else { self.ask(attempt) }
    }

    /// After an exclusive lease of ours ended while others wait here.
    pub(super) fn next_attempt(&mut self, delay: Option<Duration>) {
        self.env.hints.contended(self.key, self.now);
        let Some(delay) = delay else { return self.serve_here() };
        let Some(head) = self.state.waiters.front() else { return };
        let kind = head.want.kind;
        let mut attempt = Attempt::new(self.next_token(), kind);
        attempt.ask_at = Some(self.now.after(delay));
        self.state.attempt = Some(Box::new(attempt));
    }

    pub(super) fn next_token(&mut self) -> Token {
        if mutated!(TokenReused) { Token(1) } else { self.env.next_token() }
    }

    fn ask_plainly(&mut self, attempt: &mut Attempt) {
        let Some(head) = self.state.waiters.front() else { return };
        let ttl = head.want.ttl;
        attempt.longest = attempt.longest.max(ttl);
        let purpose = Purpose::Acquire { seq: self.number(attempt), ttl, fences: 0, queues: false };
        self.send(attempt.token, purpose, Op::TryAcquire { token: attempt.token, ttl });
    }

    /// Asks for the lock on behalf of the first waiter: the one command that acquires, queues, keeps the
    /// queue entry alive, and claims a grant.
    pub(super) fn ask(&mut self, attempt: &mut Attempt) {
        let Some(head) = self.state.waiters.front() else { return };
        let ttl = head.want.ttl;
        // An entry from before is kept up to date even if nobody needs it any more: who gets the lock removes it.
        let queues = self.state.waiters.any_patient() || attempt.queued;
        let mode = match (queues, self.env.link.pushes, attempt.queued) {
            (false, _, _) => AcquireMode::Try,
            (true, Pushes::On, false) => AcquireMode::Wait,
            (true, Pushes::On, true) => AcquireMode::WaitAgain,
            (true, Pushes::Off, false) => AcquireMode::Poll,
            (true, Pushes::Off, true) => AcquireMode::PollAgain,
        };
        let fences = match self.state.waiters.fenced() {
            0 => 0,
            waiting => waiting.saturating_add(1).min(MAX_FENCES),
        };
        attempt.claim = LONGEST_CLAIM.min(ttl);
        attempt.longest = attempt.longest.max(ttl);
        attempt.queued |= queues;
        attempt.fences = Some(match attempt.fences {
            Some(fewest) if mutated!(MostFencesAssumed) => fewest.max(fences),
            Some(fewest) => fewest.min(fences),
            None => fences,
        });
        let purpose = Purpose::Acquire { seq: self.number(attempt), ttl, fences, queues };
        let op =
            Op::Acquire { token: attempt.token, kind: attempt.kind, ttl, claim: attempt.claim, mode, fences };
        self.send(attempt.token, purpose, op);
    }

    pub(super) fn number(&mut self, attempt: &mut Attempt) -> u64 {
        self.state.seq += 1;
        attempt.asked = Some((self.state.seq, self.now));
        attempt.open = attempt.open.saturating_add(1);
        attempt.ask_at = None;
        if attempt.silent.is_none() {
            attempt.silent = Some(self.now);
        }
        self.state.seq
    }

    pub(super) fn send(&mut self, token: Token, purpose: Purpose, op: Op) {
        self.out.push(Effect::Send(Context { key: self.key.clone(), token, sent: self.now, purpose }, op));
    }

    /// Nobody wants what it stands for any more.
    pub(super) fn abandon_attempt(&mut self) {
        if let Some(attempt) = self.state.attempt.take()
            && attempt.may_be_applied()
        {
            self.cancel_on_server(attempt.token, attempt.longest);
        }
    }

    pub(super) fn attempt_is_due(&mut self) {
        let link_is_down = self.env.link.is_down();
        if let Some(attempt) = &self.state.attempt
            && matches!(attempt.batch_role, Some(BatchRole::Follower(_)))
            && !mutated!(FollowerAsks)
        {
            if attempt.due(link_is_down) <= self.now {
                self.withdraw(attempt.token);
            }
            return;
        }
        self.with_attempt(|step, mut attempt| {
            if attempt.due(link_is_down) <= step.now {
                step.ask(&mut attempt);
            }
            Some(attempt)
        });
    }

    /// There is a new link, or pushes may have been missed.
    pub(super) fn ask_afresh(&mut self) {
        if let Some(attempt) = &self.state.attempt
            && matches!(attempt.batch_role, Some(BatchRole::Follower(_)))
            && !mutated!(FollowerAsks)
        {
            self.withdraw(attempt.token);
            return;
        }
        self.with_attempt(|step, mut attempt| {
            if !mutated!(PairKeptOverReconnect) {
                attempt.pair = None;
            }
            // While a gap is kept the attempt has sent nothing, and asks by itself.
            if attempt.may_be_applied() || attempt.silent.is_some() {
                step.ask(&mut attempt);
            }
            Some(attempt)
        });
    }

    /// The link is gone: unanswered commands may have been applied.
    pub(super) fn attempt_lost_link(&mut self, cause: &OpError) {
        if let Some(attempt) = &mut self.state.attempt {
            if !mutated!(PairKeptOverReconnect) {
                attempt.pair = None;
            }
            attempt.cause = Some(cause.clone());
            attempt.silent.get_or_insert(self.now);
        }
    }

    pub(super) fn forget_pair(&mut self) {
        if let Some(attempt) = &mut self.state.attempt {
            attempt.pair = None;
        }
    }

    /// Takes the attempt out, and puts back what is left of it.
    fn with_attempt(&mut self, change: impl FnOnce(&mut Self, Box<Attempt>) -> Option<Box<Attempt>>) {
        if let Some(attempt) = self.state.attempt.take()
            && let Some(attempt) = change(self, attempt)
        {
            self.state.attempt = Some(attempt);
        }
    }

    /// The answer to an `enter` of the current attempt.
    pub(super) fn on_acquire_reply(
        &mut self,
        context: &Context,
        seq: u64,
        ttl: Duration,
        fences: u32,
        result: OpResult,
    ) {
        let queues = matches!(context.purpose, Purpose::Acquire { queues: true, .. });
        let sent = context.sent;
        self.with_attempt(|step, mut attempt| {
            attempt.heard_of(&result, queues);
            if seq < attempt.seen && !mutated!(StaleReplyBelieved) {
                return Some(attempt);
            }
            attempt.seen = attempt.seen.max(seq);
            if attempt.asked.is_some_and(|(asked, _)| asked <= seq) {
                attempt.asked = None;
            }
            if let Some(batch_role) = attempt.batch_role.take() {
                match step.on_batch_reply(batch_role, attempt, lease_end(sent, ttl), &result) {
                    Handled::AsOneKey(same) => attempt = same,
                    Handled::Entirely(left) => return left,
                }
            }
            match result {
                // Another command of ours must have taken it; only `enter` says when.
                Ok(Reply::AlreadyHeld { server_time: None, .. }) => {
                    step.ask(&mut attempt);
                    Some(attempt)
                }
                Ok(Reply::Acquired { server_time, fence }) => {
                    step.got(attempt, sent, ttl, true, server_time, fence, fences)
                }
                Ok(Reply::AlreadyHeld { server_time, fence }) => {
                    step.got(attempt, sent, ttl, false, server_time, fence, fences)
                }
                Ok(Reply::Busy { server_time, holder, remaining, front }) => {
                    attempt.silent = None;
                    attempt.cause = None;
                    attempt.refusals = 0;
                    attempt.entered = None;
                    attempt.pair = server_time.filter(|_| queues).map(|server_time| (server_time, sent));
                    attempt.holder = Some(holder.clone());
                    step.busy(attempt, &holder, remaining, front, queues)
                }
                Ok(Reply::WrongKind { found }) => {
                    if attempt.may_be_applied() && !mutated!(WrongKindLeavesEntry) {
                        step.compensate(attempt.token, attempt.longest);
                    }
                    step.dismiss_all(&Outcome::WrongKind { found });
                    None
                }
                Ok(
                    Reply::Released { .. }
                    | Reply::Cancelled
                    | Reply::NotHeld
                    | Reply::Renewed { .. }
                    | Reply::Fenced { .. }
                    | Reply::Skipped,
                ) => {
                    let odd = OpError::new(Failure::Unknown, "the server gave an answer of another kind");
                    step.failed(attempt, odd)
                }
                Err(error) => step.failed(attempt, error),
            }
        });
        self.serve_here();
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one reply and of its request")]
    fn got(
        &mut self,
        attempt: Box<Attempt>,
        sent: Time,
        ttl: Duration,
        fresh: bool,
        server_time: Option<ServerTime>,
        fence: Option<u64>,
        fences: u32,
    ) -> Option<Box<Attempt>> {
        let counted_from = if mutated!(DeadlineFromReceipt) { self.now } else { sent };
        let deadline = lease_end(counted_from, ttl);
        let entered = if fresh { self.now } else { attempt.entered.unwrap_or(self.now) };
        let handoffs_began =
            if fresh { server_time.unwrap_or(ServerTime(0)) } else { attempt.handoffs_began };
        if fresh && attempt.holder.is_some() {
            self.state.no_gap_since = None;
        }
        if self.state.no_gap_since.is_none() {
            self.state.no_gap_since = Some(self.now);
        }
        let first = fence.unwrap_or(0);
        let grant = Grant {
            token: attempt.token,
            kind: attempt.kind,
            deadline,
            entered,
            fences: first..first.saturating_add(fence.map_or(0, |_| u64::from(fences))),
            handoffs_began,
            seen: attempt.seen,
            server_time,
            asked: sent,
            longest: attempt.longest,
        };
        if deadline <= self.now {
            return self.too_late(&attempt);
        }
        self.start(grant, ttl);
        None
    }

    /// The answer took longer than the lease lasts: give it back and try with a new token. A server that is
    /// always too slow is out of reach.
    fn too_late(&mut self, attempt: &Attempt) -> Option<Box<Attempt>> {
        if !mutated!(TooLateNotCompensated) {
            self.compensate(attempt.token, attempt.longest);
        }
        let cause = OpError::new(Failure::Unknown, "the server answered when the lease had run out already");
        let unavailable = Outcome::Unavailable(cause.clone());
        for waiter in self.state.waiters.take_impatient() {
            self.complete(waiter, unavailable.clone());
        }
        let kind = self.state.waiters.front()?.want.kind;
        let mut next = Attempt::new(self.next_token(), kind);
        let handoffs_began = attempt.late_since.unwrap_or(self.now);
        next.late_since = Some(handoffs_began);
        next.silent = Some(handoffs_began);
        next.cause = Some(cause);
        self.ask(&mut next);
        Some(Box::new(next))
    }

    fn busy(
        &mut self,
        mut attempt: Box<Attempt>,
        holder: &Arc<str>,
        remaining: Remaining,
        front: bool,
        queues: bool,
    ) -> Option<Box<Attempt>> {
        self.env.hints.contended(self.key, self.now);
        self.state.no_gap_since = None;
        self.dismiss_impatient(holder);
        if self.state.waiters.is_empty() {
            if attempt.may_be_applied() {
                self.compensate(attempt.token, attempt.longest);
            }
            return None;
        }
        if queues {
            let at = self.next_ask(&mut attempt, holder, remaining, front);
            // News of a gap may have come before this answer.
            attempt.ask_at = Some(attempt.ask_at.map_or(at, |sooner| sooner.min(at)));
        } else {
            self.ask(&mut attempt);
        }
        Some(attempt)
    }

    /// When to ask again if no push arrives.
    fn next_ask(&mut self, attempt: &mut Attempt, holder: &str, remaining: Remaining, front: bool) -> Time {
        let share = if mutated!(HeartbeatLongerThanClaim) { 10 } else { 4 };
        let heartbeat = attempt.claim * share / 5;
        let heartbeat = heartbeat - self.env.jitter(heartbeat / 5);
        let can_hand_over = holder.starts_with(MARK);
        let expiry = match remaining {
            Remaining::For(left) => left + self.env.jitter(EXPIRY_JITTER),
            Remaining::Forever | Remaining::Unknown => heartbeat,
        };
        let wait = if mutated!(TimerIsRemainingOnly) {
            expiry
        } else if self.env.link.pushes == Pushes::Off || (front && !can_hand_over) {
            self.poll_delay(attempt).min(expiry)
        } else if can_hand_over {
            heartbeat.min(expiry)
        } else {
            heartbeat
        };
        self.now.after(wait)
    }

    fn poll_delay(&mut self, attempt: &mut Attempt) -> Duration {
        let delay = FIRST_POLL_PAUSE.saturating_mul(1 << attempt.polls.min(4)).min(LONGEST_POLL_PAUSE);
        attempt.polls = attempt.polls.saturating_add(1);
        delay - self.env.jitter(delay / 2)
    }

    fn refusal_delay(&mut self, attempt: &mut Attempt) -> Duration {
        let delay = FIRST_POLL_PAUSE.saturating_mul(1 << attempt.refusals.min(6)).min(LONGEST_REFUSAL_PAUSE);
        attempt.refusals = attempt.refusals.saturating_add(1);
        delay - self.env.jitter(delay / 2)
    }

    fn failed(&mut self, mut attempt: Box<Attempt>, error: OpError) -> Option<Box<Attempt>> {
        match error.kind {
            kind if kind == Failure::Refused
                || (kind == Failure::Later && mutated!(LaterDismissesWaiters)) =>
            {
                if attempt.may_be_applied() {
                    self.compensate(attempt.token, attempt.longest);
                }
                self.dismiss_all(&Outcome::Unavailable(error));
                return None;
            }
            Failure::NotSent if self.env.link.is_down() => {
                // One attempt was asked for, and there is no server to make it on.
                let unavailable = Outcome::Unavailable(error.clone());
                for waiter in self.state.waiters.take_impatient() {
                    self.complete(waiter, unavailable.clone());
                }
                if self.state.waiters.is_empty() {
                    if attempt.may_be_applied() {
                        self.compensate(attempt.token, attempt.longest);
                    }
                    return None;
                }
            }
            _ => {
                let delay = match error.kind {
                    Failure::Later => self.refusal_delay(&mut attempt),
                    _ => self.poll_delay(&mut attempt),
                };
                attempt.ask_at = (!self.env.link.is_down()).then(|| self.now.after(delay));
            }
        }
        attempt.cause = Some(error);
        Some(attempt)
    }

    /// A push says that the lock is ours since `server_time`.
    pub(super) fn on_grant(
        &mut self,
        token: Token,
        server_time: ServerTime,
        handoffs_began: ServerTime,
        fence: Option<u64>,
    ) {
        self.with_attempt(|step, mut attempt| {
            if attempt.token != token {
                return Some(attempt);
            }
            attempt.handoffs_began = handoffs_began;
            let Some(deadline) = step.grant_deadline(&attempt, server_time) else {
                return step.confirm(attempt, server_time);
            };
            let fences = u64::from(attempt.fences.unwrap_or(0)).min(u64::from(MAX_FENCES));
            let fences = if mutated!(GrantReservesOneChainUsesTwo) { fences + 1 } else { fences };
            let first = fence.unwrap_or(0);
            let fences = first..first.saturating_add(fence.map_or(0, |_| fences));
            step.state.no_gap_since =
                Some(step.now.before(Duration::from_micros(server_time.0.saturating_sub(handoffs_began.0))));
            let grant = Grant {
                token,
                kind: attempt.kind,
                deadline,
                entered: step.now,
                fences,
                handoffs_began,
                seen: if mutated!(GrantForgetsOldReplies) { 0 } else { attempt.seen },
                server_time: Some(server_time),
                asked: step.now,
                longest: attempt.longest,
            };
            step.start(grant, Duration::ZERO);
            None
        });
    }

    /// Until when a grant made at `granted` may be relied on without asking:
    /// `t_S + (1 − ρ)·((G − S) + C) − margin`. `None`: ask, and count from there.
    fn grant_deadline(&self, attempt: &Attempt, granted: ServerTime) -> Option<Time> {
        if mutated!(GrantDeadlineFromReceipt) {
            return Some(lease_end(self.now, attempt.claim));
        }
        let (server, sent) = attempt.pair?;
        let between = match granted.0.checked_sub(server.0) {
            None if mutated!(StalePushSaturates) => 0,
            between => between?,
        };
        let span = Duration::from_micros(between).saturating_add(attempt.claim);
        // A grant from the future: the server's clock was set.
        if lease_end(sent, Duration::from_micros(between)) > self.now && !mutated!(PairKeptOverReconnect) {
            return None;
        }
        let deadline = lease_end(sent, span);
        (deadline > self.now.after(attempt.claim / 2)).then_some(deadline)
    }

    /// Takes a grant whose age is not known by asking again; ignores one that is older than what we know.
    fn confirm(&mut self, mut attempt: Box<Attempt>, granted: ServerTime) -> Option<Box<Attempt>> {
        let stale = attempt.pair.is_some_and(|(server, _)| granted < server);
        if !stale {
            self.ask(&mut attempt);
        }
        Some(attempt)
    }

    /// A push says that the key is left free for plain pollers for a moment.
    pub(super) fn on_gap(&mut self, token: Token) {
        let gap = self.env.tuning.poll_gap;
        let now = self.now;
        if let Some(attempt) = &mut self.state.attempt
            && attempt.token == token
        {
            attempt.ask_at = Some(now.after(gap));
        }
    }

    /// The lease is ours but does not suit whoever is next here: ask for one that does, with the same token.
    pub(super) fn ask_for_more(&mut self, grant: Grant) {
        let mut attempt = Attempt::new(grant.token, grant.kind);
        attempt.entered = Some(grant.entered);
        attempt.handoffs_began = grant.handoffs_began;
        attempt.longest = grant.longest;
        // An `enter` from before this lease says nothing of tokens that are left: its block may lie below ours.
        attempt.seen = self.state.seq + 1;
        self.ask(&mut attempt);
        self.state.attempt = Some(Box::new(attempt));
    }
}
