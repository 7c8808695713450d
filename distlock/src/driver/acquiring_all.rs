//! Several requests that wait for their locks, with one command for as many as possible.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use super::answer::{AnswerReceiver, NoAnswer, answer};
use super::in_flight::{AwaitedCommand, AwaitedKind};
use super::{AcquireResult, Alive, Core, LeaseHandle, Requester};
use crate::collection::KeyCollection;
use crate::engine::{Outcome, Want};
use crate::lease_cell::Ticket;
use crate::process;
use crate::protocol::mutated;
use distlock_store::clock;

/// It can be dropped at any time, like a single request.
struct AcquiringAll {
    core: Arc<Core>,
    command: AwaitedCommand,
    /// The requests without a reply, in order.
    waiting: VecDeque<PendingKey>,
    acquired: Vec<LeaseHandle>,
    collection: Option<Arc<KeyCollection>>,
}

struct PendingKey {
    key: Arc<str>,
    ticket: Ticket,
    answer: KeyAnswer,
}

enum KeyAnswer {
    Awaited(AnswerReceiver<AcquireResult>),
    /// Noticed, although earlier requests still wait.
    Here(AcquireResult),
}

impl PendingKey {
    /// Notices the answer, if it has arrived.
    fn look(&mut self, collection: Option<&KeyCollection>, cx: &mut TaskContext<'_>) {
        let KeyAnswer::Awaited(awaited) = &mut self.answer else { return };
        let Poll::Ready(answer) = awaited.poll(cx) else { return };
        if let Some(collection) = collection {
            collection.looked();
        }
        // The engine answers every request once. It drops a request only when it is dropped itself.
        self.answer = KeyAnswer::Here(answer.unwrap_or_else(|NoAnswer| AcquireResult::Not(Outcome::Closed)));
    }
}

/// Acquires the first of `keys`, which are sorted and without duplicates, and with the same command as many of the next
/// ones as are free. A caller that needs all keys continues after the acquired ones. The outcome, if there is one, is
/// that of the first key that was not acquired.
pub(crate) async fn acquire_all(
    alive: &Arc<Alive>,
    keys: &[Arc<str>],
    want: &Want,
) -> (Vec<LeaseHandle>, Option<Outcome>) {
    let core = alive.core().clone();
    let mut answers = Vec::with_capacity(keys.len());
    let who = || {
        let (answer, awaited) = answer();
        answers.push(awaited);
        Requester { answer, alive: alive.clone() }
    };
    if let Some(collection) = &want.collection {
        collection.asks();
    }
    let (tickets, effects) = core.engine.acquire_all(clock::now(), keys, want, who);
    let waiting = keys.iter().zip(tickets).zip(answers);
    let waiting = waiting.map(|((key, ticket), awaited)| PendingKey {
        key: key.clone(),
        ticket,
        answer: KeyAnswer::Awaited(awaited),
    });
    let mut acquiring = AcquiringAll {
        core,
        command: AwaitedCommand::new(AwaitedKind::Acquire),
        waiting: waiting.collect(),
        acquired: Vec::with_capacity(keys.len()),
        collection: want.collection.clone(),
    };
    acquiring.core.clone().perform(effects, Some(&mut acquiring.command));
    if let Some(first) = keys.first()
        && !acquiring.command.is_under_way()
        && acquiring.first_waits()
    {
        acquiring.core.report_wait_behind_others(first, &want.label, want.kind);
    }
    let outcome = poll_fn(|cx| acquiring.poll(cx)).await;
    (std::mem::take(&mut acquiring.acquired), outcome)
}

impl AcquiringAll {
    /// The answers that were not noticed yet.
    fn awaited(&mut self) -> impl Iterator<Item = &mut AnswerReceiver<AcquireResult>> {
        self.waiting.iter_mut().filter_map(|waiting| match &mut waiting.answer {
            KeyAnswer::Awaited(awaited) => Some(awaited),
            KeyAnswer::Here(_) => None,
        })
    }

    fn first_waits(&self) -> bool {
        let first = self.waiting.front().map(|waiting| &waiting.answer);
        matches!(first, Some(KeyAnswer::Awaited(awaited)) if awaited.is_open())
    }

    /// Ready with the first outcome that ends the request without a lock; with `None` if the command acquired
    /// every key, or skipped the rest.
    fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<Option<Outcome>> {
        if self.core.is_forked() {
            return Poll::Ready(Some(Outcome::Unavailable(process::forked())));
        }
        // The reply to its own command may answer them.
        self.awaited().for_each(AnswerReceiver::pause);
        let _: Poll<()> = self.command.poll(&self.core, cx);
        // Polls all answers, because no lease of the request is renewed before its answer was noticed.
        for waiting in &mut self.waiting {
            waiting.look(self.collection.as_deref(), cx);
            if matches!(waiting.answer, KeyAnswer::Awaited(_)) && !all_answers_are_noticed() {
                break;
            }
        }
        while let Some(next) = self.waiting.pop_front() {
            let KeyAnswer::Here(answer) = next.answer else {
                self.waiting.push_front(next);
                return Poll::Pending;
            };
            match answer {
                AcquireResult::Acquired(lease_handle) => {
                    lease_handle.cell.claim(clock::now());
                    self.acquired.push(lease_handle);
                }
                AcquireResult::Not(Outcome::Skipped) => return Poll::Ready(None),
                AcquireResult::Not(outcome) => return Poll::Ready(Some(outcome)),
            }
        }
        Poll::Ready(None)
    }
}

impl Drop for AcquiringAll {
    fn drop(&mut self) {
        self.command.hand_over(&self.core);
        if self.core.is_forked() {
            self.awaited().for_each(AnswerReceiver::leave_to_parent);
            return;
        }
        // In reverse order, like every release of several keys.
        while let Some(PendingKey { key, ticket, answer }) = self.waiting.pop_back() {
            drop(answer);
            self.core.cancel(&key, ticket);
        }
        while self.acquired.pop().is_some() {}
    }
}

/// A rule that tests can break: the answer for a skipped key is noticed while the request waits for an earlier key.
fn all_answers_are_noticed() -> bool {
    !mutated!(OnlyFirstAnswerNoticed)
}
