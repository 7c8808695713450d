//! A request that waits for its lock.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use tokio::sync::oneshot;

use super::in_flight::{AwaitedCommand, AwaitedKind};
use super::{AcquireResult, Alive, Core, Requester};
use crate::clock;
use crate::engine::{Outcome, Want};
use crate::lease_cell::Ticket;
use crate::process;
use crate::protocol::mutated;

/// Dropping it at any time leaves nothing behind: a request that still waits is cancelled, a lock that has
/// just been acquired is released, and the I/O thread awaits a command that is under way.
struct Acquiring {
    core: Arc<Core>,
    key: Arc<str>,
    ticket: Ticket,
    command: AwaitedCommand,
    answer: oneshot::Receiver<AcquireResult>,
    answered: bool,
    /// It was polled before, and the process may have been forked since.
    suspended: bool,
}

/// Acquires `key`, or returns why not. The caller has made sure that this process was not forked.
pub(crate) async fn acquire(alive: &Arc<Alive>, key: Arc<str>, want: Want) -> AcquireResult {
    let (sender, answer) = oneshot::channel();
    let core = alive.core().clone();
    let requester = Requester { answer: sender, alive: alive.clone() };
    let (ticket, effects) = core.engine.acquire(clock::now(), &key, want, requester);
    let command = AwaitedCommand::new(AwaitedKind::Acquire);
    let mut acquiring = Acquiring { core, key, ticket, command, answer, answered: false, suspended: false };
    acquiring.core.clone().perform(effects, Some(&mut acquiring.command));
    poll_fn(move |cx| acquiring.poll(cx)).await
}

impl Acquiring {
    fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<AcquireResult> {
        // The first poll follows the request without a pause. Any later poll checks for a fork, also if the
        // reply has already come: the lock belongs to the parent.
        if self.suspended && self.core.is_forked() {
            return Poll::Ready(AcquireResult::Not(Outcome::Unavailable(process::forked())));
        }
        self.suspended = true;
        let _: Poll<()> = self.command.poll(&self.core, cx);
        let answer = Pin::new(&mut self.answer).poll(cx);
        answer.map(|answer| {
            self.answered = true;
            // The engine answers every request once. It drops a request only when it is dropped itself.
            let answered = answer.unwrap_or(AcquireResult::Not(Outcome::Closed));
            if let AcquireResult::Acquired(lease_handle) = &answered
                && noticed_grants_are_claimed()
            {
                lease_handle.cell.claim();
            }
            answered
        })
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        self.command.hand_over(&self.core);
        if !self.answered && !self.core.is_forked() && dropped_requests_are_cancelled() {
            // Closed first: otherwise the engine, which drops the sender while it holds its mutex, would wake
            // a task there.
            self.answer.close();
            let effects = self.core.engine.cancel(clock::now(), &self.key, self.ticket);
            self.core.perform(effects, None);
        }
    }
}

/// Nobody is waited for who has gone.
fn dropped_requests_are_cancelled() -> bool {
    !mutated!(DroppedRequestWaits)
}

/// A lease is renewed as soon as its requester has noticed the grant.
fn noticed_grants_are_claimed() -> bool {
    !mutated!(NoticedGrantNotClaimed)
}
