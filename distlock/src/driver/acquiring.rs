//! A request that waits for its lock.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use super::answer::{AnswerReceiver, NoAnswer, answer};
use super::in_flight::{AwaitedCommand, AwaitedKind};
use super::{AcquireResult, Alive, Core, NestedWait, Requester};
use crate::engine::{Outcome, Want};
use crate::lease_cell::Ticket;
use crate::process;
use crate::protocol::mutated;
use distlock_store::clock;
use distlock_store::engine::Time;

/// It can be dropped at any time: a request that still waits is cancelled, a lock that was just acquired is released,
/// and a command in flight continues without it.
pub(crate) struct PendingAcquire {
    core: Arc<Core>,
    key: Arc<str>,
    ticket: Ticket,
    command: AwaitedCommand,
    answer: AnswerReceiver<AcquireResult>,
    answered: bool,
    /// The number of the nested wait, if it waits inside sections.
    nested: Option<u64>,
}

/// Requests `key`. The command has been sent when this returns. `now` is an earlier instant. The caller has checked
/// that this process was not forked.
pub(crate) fn acquire(alive: &Arc<Alive>, now: Time, key: Arc<str>, want: Want) -> PendingAcquire {
    let (sender, awaited) = answer();
    let core = alive.core();
    let requester = Requester { answer: sender, alive: alive.clone() };
    let (ticket, effects) = core.engine.on_key(now, &key, |step| step.acquire(want, requester));
    let command = AwaitedCommand::new(AwaitedKind::Acquire);
    let mut acquiring = PendingAcquire {
        core: core.clone(),
        key,
        ticket,
        command,
        answer: awaited,
        answered: false,
        nested: None,
    };
    core.perform(effects, Some(&mut acquiring.command));
    acquiring
}

impl PendingAcquire {
    pub(crate) fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// Whether this future awaits the reply to a command itself.
    pub(crate) fn sends(&self) -> bool {
        self.command.is_under_way()
    }

    /// Registers that this request waits inside sections.
    pub(crate) fn waits_inside(&mut self, wait: NestedWait) {
        self.nested = Some(self.core.nested_wait_begins(wait, self.key.clone(), self.ticket));
    }

    /// The answer, if it has arrived.
    pub(crate) fn now(&mut self) -> Option<AcquireResult> {
        if self.sends() {
            return None;
        }
        self.answer.now().map(|answer| self.picked_up(answer))
    }

    fn picked_up(&mut self, answer: Result<AcquireResult, NoAnswer>) -> AcquireResult {
        self.answered = true;
        // The engine answers every request once. It drops a request only when it is dropped itself.
        let answered = answer.unwrap_or_else(|NoAnswer| AcquireResult::Not(Outcome::Closed));
        if let AcquireResult::Acquired(lease_handle) = &answered
            && noticed_grants_are_claimed()
        {
            lease_handle.cell.claim(clock::now());
        }
        answered
    }
}

/// The output is the lock, or the reason why it was not acquired.
impl Future for PendingAcquire {
    type Output = AcquireResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<AcquireResult> {
        let this = &mut *self;
        // Even if the reply has already arrived, the lock belongs to the parent process.
        if this.core.is_forked() {
            return Poll::Ready(AcquireResult::Not(Outcome::Unavailable(process::forked())));
        }
        // The reply to its own command may answer it.
        this.answer.pause();
        let _: Poll<()> = this.command.poll(&this.core, cx);
        this.answer.poll(cx).map(|answer| this.picked_up(answer))
    }
}

impl Drop for PendingAcquire {
    fn drop(&mut self) {
        self.command.hand_over(&self.core);
        if self.core.is_forked() {
            self.answer.leave_to_parent();
            return;
        }
        if let Some(number) = self.nested {
            self.core.nested_wait_ends(number);
        }
        if !self.answered && dropped_requests_are_cancelled() {
            self.answer.close();
            self.core.cancel(&self.key, self.ticket);
        }
    }
}

/// A rule that tests can break: a dropped request is cancelled.
fn dropped_requests_are_cancelled() -> bool {
    !mutated!(DroppedRequestWaits)
}

/// A rule that tests can break: a lease is renewed as soon as its requester has noticed the grant.
fn noticed_grants_are_claimed() -> bool {
    !mutated!(NoticedGrantNotClaimed)
}
