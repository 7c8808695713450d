//! Commands under way, and who awaits their replies.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};

use super::Core;
use crate::backend::BoxFuture;
use crate::backend::fail_all::fail_all;
use crate::contained::{Panicked, poll_contained};
use crate::engine::{Confirmation, Context, Purpose};
use crate::protocol::{Failure, OpError, OpResult, Token, mutated};

/// A command whose reply is awaited.
pub(super) enum InFlight {
    One(Context, Answering<OpResult>),
    /// One command for several keys.
    AcquireAll(Vec<Context>, Answering<Vec<OpResult>>),
}

/// The future of a reply. It is only used through `&mut`, so the mutex is never locked. The mutex makes the
/// caller's future `Sync` even if the backend's is not.
pub(super) struct Answering<T>(Mutex<BoxFuture<T>>);

impl<T> From<BoxFuture<T>> for Answering<T> {
    fn from(answer: BoxFuture<T>) -> Self {
        Answering(Mutex::new(answer))
    }
}

impl<T> Answering<T> {
    fn as_mut(&mut self) -> Pin<&mut (dyn Future<Output = T> + Send)> {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut()
    }
}

/// A reply, with the command that it belongs to.
pub(super) enum Answer {
    One(Context, OpResult),
    AcquireAll(Vec<(Context, OpResult)>),
}

impl Future for InFlight {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Answer> {
        match &mut *self {
            InFlight::One(context, answer) => poll_contained(answer.as_mut(), cx).map(|result| {
                let result = result.unwrap_or_else(|panicked| Err(unanswered(panicked)));
                Answer::One(context.clone(), result)
            }),
            InFlight::AcquireAll(contexts, answer) => poll_contained(answer.as_mut(), cx).map(|results| {
                let contexts = std::mem::take(contexts);
                let results = results.unwrap_or_else(|panicked| all_unanswered(contexts.len(), panicked));
                Answer::AcquireAll(pair(contexts, results))
            }),
        }
    }
}

/// The reply to a command, unless its future panics.
pub(super) async fn answer<T>(mut answer: BoxFuture<T>) -> Result<T, Panicked> {
    poll_fn(|cx| poll_contained(answer.as_mut(), cx)).await
}

/// Gives every command a result, however many came back.
pub(super) fn pair(contexts: Vec<Context>, results: Vec<OpResult>) -> Vec<(Context, OpResult)> {
    let missing = || OpError::new(Failure::Unknown, "the server answered fewer commands than were sent");
    let results = results.into_iter().chain(std::iter::repeat_with(|| Err(missing())));
    contexts.into_iter().zip(results).collect()
}

/// Which commands of an event the caller awaits itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AwaitedKind {
    Acquire,
    /// An event may send releases of other tokens too.
    Release(Token),
    Renew(Token),
}

impl AwaitedKind {
    pub(super) fn covers(self, context: &Context) -> bool {
        match (self, &context.purpose) {
            (AwaitedKind::Acquire, Purpose::Acquire { .. }) => true,
            (AwaitedKind::Release(token), Purpose::Release { .. })
            | (AwaitedKind::Renew(token), Purpose::Renew { .. }) => token == context.token,
            _ => false,
        }
    }
}

/// The caller's part in carrying out an event: the one command that it awaits, or its result.
pub(super) struct AwaitedCommand {
    pub(super) kind: AwaitedKind,
    pub(super) in_flight: Option<InFlight>,
    pub(super) confirmation: Option<Confirmation>,
}

impl AwaitedCommand {
    pub(super) fn new(kind: AwaitedKind) -> Self {
        AwaitedCommand { kind, in_flight: None, confirmation: None }
    }

    /// Drives the command. Ready when there is none, or none any more.
    pub(super) fn poll(&mut self, core: &Arc<Core>, cx: &mut TaskContext<'_>) -> Poll<()> {
        while let Some(in_flight) = &mut self.in_flight {
            let Poll::Ready(answer) = Pin::new(in_flight).poll(cx) else { return Poll::Pending };
            self.in_flight = None;
            core.answered(answer, Some(self));
        }
        Poll::Ready(())
    }

    /// The caller stops awaiting the command; the I/O thread awaits it instead.
    pub(super) fn hand_over(&mut self, core: &Arc<Core>) {
        let Some(in_flight) = self.in_flight.take() else { return };
        if core.is_forked() {
            // The parent process awaits it. Nothing that it shares with connections may be touched here.
            std::mem::forget(in_flight);
        } else if commands_are_handed_over() {
            core.await_elsewhere(in_flight);
        }
    }
}

/// The reply to every command reaches the engine, also if its caller has stopped waiting for it.
fn commands_are_handed_over() -> bool {
    !mutated!(CommandDroppedWithCaller)
}

/// Whatever was sent before the panic may be applied.
pub(super) fn unanswered(panicked: Panicked) -> OpError {
    OpError::new(Failure::Unknown, panicked)
}

pub(super) fn all_unanswered(count: usize, panicked: Panicked) -> Vec<OpResult> {
    fail_all(count, &unanswered(panicked))
}

/// A command whose place in the order is fixed.
pub(super) enum Begun<T> {
    Answered(T),
    UnderWay(BoxFuture<T>),
}

/// Gives a command its place in the order without waiting for the reply.
pub(super) fn begin<T>(mut answer: BoxFuture<T>) -> Begun<T> {
    let polled = Pin::new(&mut answer).poll(&mut TaskContext::from_waker(Waker::noop()));
    match polled {
        Poll::Ready(result) => Begun::Answered(result),
        Poll::Pending => Begun::UnderWay(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Time;

    /// The same event may send releases of other leases, which have ended by then.
    #[test]
    fn a_caller_awaits_the_release_of_its_own_lease_only() {
        let mut release = Context {
            key: "k".into(),
            token: Token(1),
            sent: Time(0),
            purpose: Purpose::Release { sends: 1, deadline: None, until: Time(0), keep_until: None },
        };
        let kind = AwaitedKind::Release(Token(1));
        assert!(kind.covers(&release) && !AwaitedKind::Renew(Token(1)).covers(&release));
        release.token = Token(2);
        assert!(!kind.covers(&release));
    }
}
