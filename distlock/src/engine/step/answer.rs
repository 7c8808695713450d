//! The replies to acquire commands.

use std::time::Duration;

use super::Step;
use super::acquire_all::Handled;
use crate::engine::rules;
use crate::engine::state::{Attempt, Grant, PendingRelease, QueuedReport};
use crate::engine::{
    AcquirePurpose, Answer, Confirmation, Context, Effect, KnownHolder, LINGER_ENDS_EARLY, LONGEST_CLAIM,
    Outcome, Queueing, ReleasePurpose, Telling,
};
use crate::error::LostReason;
use crate::lease_cell::How;
use crate::protocol::{
    AcquireReply, BatchReply, CurrentHolder, Failure, Notifications, OpResult, PollPauses, Remaining,
    ServerTime, StoreError, Time, When, lease_end, may_be_applied,
};

/// A server that refuses temporarily is asked at this interval at first …
const FIRST_REFUSAL_PAUSE: Duration = Duration::from_millis(10);
/// … and at this interval in the end.
const LONGEST_REFUSAL_PAUSE: Duration = Duration::from_millis(500);
/// Spreads the processes that ask when a holder's lease runs out.
const EXPIRY_JITTER: Duration = Duration::from_millis(50);
/// If a lease that lingers is still held when it should be over, its process is late, or a section is running. The
/// waiter asks again after this time, then four times as long each time …
const LINGER_MARGIN: Duration = Duration::from_millis(3);
/// … this long in the end …
const LONGEST_LINGER_PAUSE: Duration = Duration::from_millis(500);
/// … this many times, for a second and a quarter in total. After that the heartbeat is enough.
const LINGER_ASKS: u32 = 7;

/// In which state the server found the lock that it reports as ours.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FoundAs {
    Free,
    Ours,
}

/// Where our entry is in the queue on the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QueuePosition {
    First,
    Behind,
}

fn how_found(attempt: &Attempt, found: FoundAs) -> How {
    match (found, attempt.holder.is_some()) {
        // An earlier command took it, whose answer was lost or is late.
        (FoundAs::Ours, false) => attempt.how.unwrap_or(How::Free),
        (FoundAs::Ours, true) => attempt.how.unwrap_or(How::Granted),
        (FoundAs::Free, false) => How::Free,
        (FoundAs::Free, true) => How::Asked,
    }
}

/// After this time the holder has released a lock that it does not use, even if it did not learn that we want it. It
/// does so [`LINGER_ENDS_EARLY`]; the waiter asks half as early, because its own timer may be late, too.
fn until_lingering_ends(attempt: &mut Attempt, holder: &CurrentHolder) -> Option<Duration> {
    let linger = holder.linger.filter(|_| rules::late_keepers_are_asked(attempt.linger_asks, LINGER_ASKS))?;
    let before = attempt.linger_asks;
    attempt.linger_asks += 1;
    Some(match before.checked_sub(1) {
        None => linger - (LINGER_ENDS_EARLY / 2).min(linger / 8),
        Some(asks) => (LINGER_MARGIN * 4_u32.pow(asks)).min(LONGEST_LINGER_PAUSE),
    })
}

impl<W> Step<'_, W> {
    /// A command was answered, or failed.
    pub(crate) fn on_reply(&mut self, context: &Context, answer: Answer) -> Confirmation {
        #[cfg(test)]
        self.record_reply(context, &answer);
        match answer {
            Answer::Acquire(asked, result) => self.on_acquire_reply(context, asked, result),
            Answer::AcquireInBatch(asked, Ok(BatchReply::Tried(reply))) => {
                self.on_acquire_reply(context, asked, Ok(reply));
            }
            Answer::AcquireInBatch(asked, Err(error)) => self.on_acquire_reply(context, asked, Err(error)),
            Answer::AcquireInBatch(asked, Ok(BatchReply::Skipped)) => self.on_skipped(context, asked),
            Answer::Release(ReleasePurpose { sends, deadline, until, keep_until }, result) => {
                let (key, token) = (context.key.clone(), context.token);
                let release = PendingRelease { key, token, sends, at: When::OnLinkUp, until, keep_until };
                return self.on_release_reply(release, deadline, result);
            }
            Answer::Renew(asked, result) => return self.on_renew_reply(context, asked, result),
        }
        Ok(())
    }

    /// The reply to an acquire command.
    fn on_acquire_reply(&mut self, context: &Context, asked: AcquirePurpose, result: OpResult<AcquireReply>) {
        if self.state.attempt.as_ref().is_some_and(|attempt| attempt.token == context.token) {
            self.on_awaited_reply(context, asked, result);
        } else if self.state.lease(context.token).is_some() {
            self.on_acquire_reply_while_held(context, asked, &result);
        } else {
            self.on_orphaned_acquire(context, asked, &result);
        }
    }

    /// The reply to an acquire command of the current attempt.
    fn on_awaited_reply(&mut self, context: &Context, asked: AcquirePurpose, result: OpResult<AcquireReply>) {
        let sent = context.sent;
        self.with_attempt(|step, mut attempt| {
            if !attempt.takes_in(asked, result.as_ref().err()) {
                #[cfg(test)]
                step.record_stale();
                return Some(attempt);
            }
            if let Some(batch_role) = attempt.batch_role.take() {
                match step.on_batch_reply(batch_role, attempt, lease_end(sent, asked.ttl), &result) {
                    Handled::AsOneKey(same) => attempt = same,
                    Handled::Entirely(left) => return left,
                }
            }
            step.decide(attempt, sent, asked, result)
        });
        self.serve_here();
    }

    /// Acts on a reply. Returns the rest of the attempt.
    fn decide(
        &mut self,
        mut attempt: Box<Attempt>,
        sent: Time,
        asked: AcquirePurpose,
        result: OpResult<AcquireReply>,
    ) -> Option<Box<Attempt>> {
        let queueing = asked.queueing;
        match result {
            // Another command of ours must have acquired it. Only the reply to the full acquire command tells
            // when.
            Ok(AcquireReply::AlreadyHeld { server_time: None, .. }) => {
                self.ask(&mut attempt);
                Some(attempt)
            }
            Ok(AcquireReply::Acquired { server_time, fence }) => {
                self.got(attempt, sent, asked, FoundAs::Free, server_time, fence)
            }
            Ok(AcquireReply::AlreadyHeld { server_time, fence }) => {
                self.got(attempt, sent, asked, FoundAs::Ours, server_time, fence)
            }
            // The holder may not need the lock, and does not know yet that another waiter does.
            Ok(AcquireReply::Busy { holder, .. })
                if holder.linger.is_some()
                    && asked.telling == Telling::Never
                    && !self.state.waiters.is_empty() =>
            {
                attempt.silent = None;
                self.ask(&mut attempt);
                Some(attempt)
            }
            Ok(AcquireReply::Busy { server_time, holder, remaining, front }) => {
                attempt.linger = rules::lingers_after_a_wait(attempt.linger);
                attempt.silent = None;
                attempt.cause = None;
                attempt.refusals = 0;
                attempt.late_since = None;
                attempt.entered = None;
                attempt.queued_times =
                    server_time.filter(|_| queueing == Queueing::May).map(|server_time| (server_time, sent));
                if queueing == Queueing::May && attempt.traces.all_answered() {
                    attempt.claim = LONGEST_CLAIM.min(asked.ttl);
                }
                let until = match remaining {
                    Remaining::For(left) => Some(self.now.after(left)),
                    Remaining::Forever | Remaining::Unknown => None,
                };
                let known = KnownHolder { text: holder.text.clone(), until };
                self.dismiss_impatient(&attempt, &known);
                let before = attempt.holder.replace(known);
                if before.is_none_or(|before| before.text != holder.text) {
                    attempt.linger_asks = 0;
                }
                let place = if front { QueuePosition::First } else { QueuePosition::Behind };
                self.busy(attempt, &holder, remaining, place, queueing)
            }
            Ok(AcquireReply::WrongKind { found }) => {
                if rules::wrong_kind_is_compensated() {
                    self.undo(&attempt);
                }
                self.dismiss_served(&attempt, &Outcome::WrongKind { found });
                None
            }
            // This is final: a holder that no longer holds it never does again, and no earlier command can succeed.
            Ok(AcquireReply::NotHeld) => {
                if let Some(waiter) = self.state.waiters.pop() {
                    self.complete(waiter, Outcome::NotReplaced);
                }
                None
            }
            Err(error) => self.failed(attempt, error),
        }
    }

    fn got(
        &mut self,
        attempt: Box<Attempt>,
        sent: Time,
        asked: AcquirePurpose,
        found: FoundAs,
        server_time: Option<ServerTime>,
        fence: Option<u64>,
    ) -> Option<Box<Attempt>> {
        let AcquirePurpose { ttl, fences, .. } = asked;
        let deadline = self.env.lease_end(rules::counted_from(sent, self.now), ttl);
        let (entered, handoffs_began) = match found {
            FoundAs::Free => (self.now, server_time),
            FoundAs::Ours => (attempt.entered.unwrap_or(self.now), attempt.handoffs_began),
        };
        if found == FoundAs::Free && attempt.holder.is_some() {
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
            last_seq: attempt.last_seq,
            server_time,
            asked: sent,
            longest: attempt.longest,
            how: how_found(&attempt, found),
            is_former: attempt.is_former,
            linger: attempt.linger,
        };
        if deadline <= self.now || self.env.session().is_some_and(|session| session.is_over(self.now)) {
            return self.too_late(&attempt);
        }
        self.start(grant, ttl);
        None
    }

    /// The reply took longer than the lease lasts: release it and try with a new token. A server that is
    /// always too slow counts as unreachable.
    fn too_late(&mut self, attempt: &Attempt) -> Option<Box<Attempt>> {
        if rules::leases_that_come_too_late_are_compensated() {
            self.compensate(attempt.token, attempt.longest);
        }
        let cause = StoreError::new(Failure::Unknown, "the server answered after the lease had expired");
        self.fail_impatient(attempt.replaces.is_some(), &cause);
        let mut next = self.attempt_for_first()?;
        let late_since = attempt.late_since.unwrap_or(self.now);
        next.late_since = Some(late_since);
        next.silent = Some(late_since);
        next.cause = Some(cause);
        self.ask(&mut next);
        Some(Box::new(next))
    }

    fn busy(
        &mut self,
        mut attempt: Box<Attempt>,
        holder: &CurrentHolder,
        remaining: Remaining,
        place: QueuePosition,
        queueing: Queueing,
    ) -> Option<Box<Attempt>> {
        self.env.hints.contended(self.key, self.now);
        self.state.no_gap_since = None;
        if !self.state.waiters.front().is_some_and(|head| attempt.serves(&head.want)) {
            // Its waiters have just been told. The attempt is given up.
            return Some(attempt);
        }
        if queueing == Queueing::May {
            let at = self.next_ask(&mut attempt, holder, remaining, place);
            attempt.phase.queued(at);
            self.report_queued(&mut attempt);
        } else {
            self.ask(&mut attempt);
        }
        Some(attempt)
    }

    fn report_queued(&mut self, attempt: &mut Attempt) {
        let Some(head) = self.state.waiters.front() else { return };
        if std::mem::replace(&mut attempt.queued, QueuedReport::Done) == QueuedReport::Due {
            let (key, label) = (self.key.clone(), head.want.label.clone());
            let (kind, waiting) = (attempt.kind, self.state.waiters.len());
            self.out.push(Effect::Queued { key, label, kind, waiting });
        }
    }

    /// When to ask again if no push arrives.
    fn next_ask(
        &mut self,
        attempt: &mut Attempt,
        holder: &CurrentHolder,
        remaining: Remaining,
        place: QueuePosition,
    ) -> Time {
        let heartbeat = rules::heartbeat(attempt.claim);
        let heartbeat = heartbeat - self.env.jitter(heartbeat / 5);
        let expiry = match remaining {
            Remaining::For(left) => left.saturating_add(self.env.jitter(EXPIRY_JITTER)),
            Remaining::Forever | Remaining::Unknown => heartbeat,
        };
        let wait = if !rules::holders_may_let_go_early() {
            expiry
        } else if self.env.link.pushes == Notifications::Off
            || (place == QueuePosition::First && !holder.hands_over)
        {
            let pause = self.poll_delay(attempt);
            if matches!(remaining, Remaining::For(_)) { pause.min(expiry) } else { pause }
        } else if holder.hands_over {
            heartbeat.min(expiry)
        } else {
            heartbeat
        };
        self.now.after(until_lingering_ends(attempt, holder).map_or(wait, |ends| wait.min(ends)))
    }

    fn poll_delay(&mut self, attempt: &mut Attempt) -> Duration {
        let PollPauses { first, longest } = self.env.tuning.polls;
        let delay = first.saturating_mul(1 << attempt.polls.min(30)).min(longest);
        attempt.polls = attempt.polls.saturating_add(1);
        delay - self.env.jitter(delay / 2)
    }

    fn refusal_delay(&mut self, attempt: &mut Attempt) -> Duration {
        let delay =
            FIRST_REFUSAL_PAUSE.saturating_mul(1 << attempt.refusals.min(6)).min(LONGEST_REFUSAL_PAUSE);
        attempt.refusals = attempt.refusals.saturating_add(1);
        delay - self.env.jitter(delay / 2)
    }

    fn failed(&mut self, mut attempt: Box<Attempt>, error: StoreError) -> Option<Box<Attempt>> {
        match error.kind {
            kind if rules::ends_the_wait(kind) => {
                self.undo(&attempt);
                self.dismiss_served(&attempt, &Outcome::Unavailable(error));
                return None;
            }
            Failure::NotSent if self.env.link.is_down() => {
                // These requests want a single attempt, and no server is reachable.
                self.fail_impatient(attempt.may_have_replaced(), &error);
            }
            _ => {
                let delay = match error.kind {
                    Failure::Later => self.refusal_delay(&mut attempt),
                    _ => self.poll_delay(&mut attempt),
                };
                let at =
                    if self.env.link.is_down() { When::OnLinkUp } else { When::At(self.now.after(delay)) };
                attempt.phase.back_off(at);
            }
        }
        attempt.cause = Some(error);
        Some(attempt)
    }

    /// The reply to an acquire command whose token already has a lease.
    fn on_acquire_reply_while_held(
        &mut self,
        context: &Context,
        asked: AcquirePurpose,
        result: &OpResult<AcquireReply>,
    ) {
        let (token, AcquirePurpose { seq, ttl, .. }) = (context.token, asked);
        let Some(lease) = self.state.lease(token) else { return };
        if rules::is_stale(seq, lease.grant.last_seq) {
            #[cfg(test)]
            self.record_stale();
            return;
        }
        lease.grant.last_seq = lease.grant.last_seq.max(seq);
        match result {
            // The command was applied before the state that we know already: threads may send in a different order from
            // the engine's.
            Ok(AcquireReply::Acquired { server_time: Some(server_time), .. })
                if lease.grant.server_time.is_some_and(|known| *server_time <= known) =>
            {
                #[cfg(test)]
                self.record_stale();
            }
            Ok(AcquireReply::Acquired { .. }) if rules::fresh_while_held_is_a_loss() => {
                // The lock was lost in between, and this command acquired it again.
                let (keep_until, longest) = (lease.min_until, lease.grant.longest);
                self.lose_lease(token, LostReason::Expired);
                // This release does not wait for the body. It may be executed before another command of this token.
                self.state.lost.retain(|lost| lost.token != token);
                self.compensate_and_keep(token, longest, keep_until.filter(|until| *until > self.now));
            }
            Ok(AcquireReply::AlreadyHeld { .. } | AcquireReply::Acquired { .. }) => {
                self.extended(token, self.env.lease_end(context.sent, ttl));
            }
            Ok(AcquireReply::Busy { .. } | AcquireReply::WrongKind { .. } | AcquireReply::NotHeld)
            | Err(_) => {}
        }
    }

    /// The reply to an acquire command whose token no longer belongs to an attempt or a lease.
    fn on_orphaned_acquire(
        &mut self,
        context: &Context,
        asked: AcquirePurpose,
        result: &OpResult<AcquireReply>,
    ) {
        let AcquirePurpose { ttl, queueing, .. } = asked;
        match result {
            _ if !rules::late_answers_are_compensated() || self.is_left_on_the_server(context.token) => {
                return;
            }
            Ok(AcquireReply::Acquired { .. } | AcquireReply::AlreadyHeld { .. }) => {}
            Ok(AcquireReply::Busy { .. }) if queueing == Queueing::May => {}
            // Its release may have been answered already although it was applied before this command.
            Err(error) if may_be_applied(error) => {}
            Ok(AcquireReply::Busy { .. } | AcquireReply::WrongKind { .. } | AcquireReply::NotHeld)
            | Err(_) => return,
        }
        self.compensate(context.token, ttl.max(LONGEST_CLAIM));
    }
}
