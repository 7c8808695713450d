//! Commands under way, and who awaits their replies.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context as TaskContext, Poll, Waker};

use super::Core;
use super::shards::BatchAnswer;
use crate::backend::fail_all::fail_all;
use crate::backend::{BoxFuture, Sending};
use crate::contained::{Panicked, contained, poll_contained};
use crate::engine::{Acquiring, Answer, Command, Confirmation, Context, Releasing, Renewing};
use crate::process::{self, Process};
use crate::protocol::{
    AcquireReply, BatchReply, Failure, OpResult, ReleaseReply, RenewReply, StoreError, Token, mutated,
};
use crate::take_over::{Entry, Lendable};

/// A command whose reply is awaited.
pub(super) enum InFlight {
    Acquire(Context, Acquiring, Answering<OpResult<AcquireReply>>),
    Release(Context, Releasing, Answering<OpResult<ReleaseReply>>),
    Renew(Context, Renewing, Answering<OpResult<RenewReply>>),
    /// One command for several keys.
    AcquireAll(Vec<(Context, Acquiring)>, Answering<Vec<OpResult<BatchReply>>>),
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

impl<T> Answering<OpResult<T>> {
    /// The result, also if the future panics.
    fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<OpResult<T>> {
        poll_contained(self.as_mut(), cx)
            .map(|result| result.unwrap_or_else(|panicked| Err(unanswered(panicked))))
    }
}

/// What became of a command, or of one for several keys.
pub(super) enum Answered {
    One(Context, Answer),
    AcquireAll(Vec<BatchAnswer>),
}

impl Future for InFlight {
    type Output = Answered;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Answered> {
        match &mut *self {
            InFlight::Acquire(context, asked, answer) => {
                answer.poll(cx).map(|result| Answered::One(context.clone(), Answer::Acquire(*asked, result)))
            }
            InFlight::Release(context, asked, answer) => {
                answer.poll(cx).map(|result| Answered::One(context.clone(), Answer::Release(*asked, result)))
            }
            InFlight::Renew(context, asked, answer) => {
                answer.poll(cx).map(|result| Answered::One(context.clone(), Answer::Renew(*asked, result)))
            }
            InFlight::AcquireAll(asked, answer) => poll_contained(answer.as_mut(), cx).map(|results| {
                let asked = std::mem::take(asked);
                let results = results.unwrap_or_else(|panicked| all_unanswered(asked.len(), panicked));
                Answered::AcquireAll(batch_answers(asked, results))
            }),
        }
    }
}

/// The reply to a command, unless its future panics.
pub(super) async fn answer<T>(mut answer: BoxFuture<T>) -> Result<T, Panicked> {
    poll_fn(|cx| poll_contained(answer.as_mut(), cx)).await
}

/// Gives every command a result, however many came back.
pub(super) fn pair<C, T>(
    commands: Vec<C>,
    results: Vec<OpResult<T>>,
) -> impl Iterator<Item = (C, OpResult<T>)> {
    let missing = || StoreError::new(Failure::Unknown, "the server answered fewer commands than were sent");
    let results = results.into_iter().chain(std::iter::repeat_with(move || Err(missing())));
    commands.into_iter().zip(results)
}

/// The same for one command for several keys.
pub(super) fn batch_answers(
    asked: Vec<(Context, Acquiring)>,
    results: Vec<OpResult<BatchReply>>,
) -> Vec<BatchAnswer> {
    pair(asked, results).map(|((context, asked), result)| (context, asked, result)).collect()
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
    pub(super) fn covers(self, context: &Context, command: &Command) -> bool {
        match (self, command) {
            (AwaitedKind::Acquire, Command::Acquire(..)) => true,
            (AwaitedKind::Release(token), Command::Release(..))
            | (AwaitedKind::Renew(token), Command::Renew(..)) => token == context.token,
            _ => false,
        }
    }
}

/// A command that a caller polls, or that the I/O thread has taken over: others may wait for the answer.
pub(super) struct Polled {
    core: Weak<Core>,
    place: Mutex<Place>,
}

/// Whoever polls a command has it out of here: no mutex is held meanwhile.
enum Place {
    /// Its caller has it, and does not poll it at this moment.
    Here(InFlight),
    /// Its caller polls it.
    Out,
    /// The same, and the I/O thread takes it over then.
    Wanted,
    /// It was answered, or the I/O thread has it.
    Gone,
}

impl Polled {
    fn new(core: &Arc<Core>, in_flight: InFlight) -> Arc<Self> {
        Arc::new(Polled { core: Arc::downgrade(core), place: Mutex::new(Place::Here(in_flight)) })
    }

    /// Sets another place if the present one is left by that.
    fn change(&self, change: impl FnOnce(Place) -> (Place, Option<InFlight>)) -> Option<InFlight> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, taken) = change(std::mem::replace(&mut *place, Place::Gone));
        *place = next;
        taken
    }

    /// Takes it out to be polled. `None`: it is gone.
    fn take_out(&self) -> Option<InFlight> {
        self.change(|place| match place {
            Place::Here(in_flight) => (Place::Out, Some(in_flight)),
            other => (other, None),
        })
    }

    /// It was polled, and has no answer yet. Returns it if it is the I/O thread's now.
    fn put_back(&self, in_flight: InFlight) -> Option<InFlight> {
        self.change(|place| match place {
            Place::Out => (Place::Here(in_flight), None),
            _ => (Place::Gone, Some(in_flight)),
        })
    }

    fn answered(&self) {
        self.change(|_| (Place::Gone, None));
    }

    /// The caller leaves it, or it is to be taken over: returns it, unless it is being polled or gone.
    fn leave(&self) -> Option<InFlight> {
        self.change(|place| match place {
            Place::Here(in_flight) => (Place::Gone, Some(in_flight)),
            Place::Out => (Place::Wanted, None),
            other => (other, None),
        })
    }
}

impl Lendable for Polled {
    fn call_home(self: Arc<Self>) {
        if let (Some(core), Some(in_flight)) = (self.core.upgrade(), self.leave()) {
            core.await_elsewhere(in_flight);
        }
    }

    fn end(&self) {}
}

/// The caller's part in carrying out an event: the one command that it awaits, or its result.
pub(super) struct AwaitedCommand {
    pub(super) kind: AwaitedKind,
    in_flight: Option<(Arc<Polled>, Option<Entry>)>,
    pub(super) confirmation: Option<Confirmation>,
}

impl AwaitedCommand {
    pub(super) fn new(kind: AwaitedKind) -> Self {
        AwaitedCommand { kind, in_flight: None, confirmation: None }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.in_flight.is_some()
    }

    /// The caller is to await this command. The I/O thread looks after one that asks for a lock: other requests of this
    /// process may wait for what its answer says.
    pub(super) fn begins(&mut self, core: &Arc<Core>, in_flight: InFlight) {
        let polled = Polled::new(core, in_flight);
        let asks = self.kind == AwaitedKind::Acquire && commands_are_taken_over();
        let entry = if asks { core.lookout.keep(polled.clone()) } else { None };
        self.in_flight = Some((polled, entry));
    }

    /// Drives the command. Ready when there is none, or none any more.
    pub(super) fn poll(&mut self, core: &Arc<Core>, cx: &mut TaskContext<'_>) -> Poll<()> {
        while let Some((polled, _)) = &self.in_flight {
            let Some(mut in_flight) = polled.take_out() else {
                self.forget(core);
                return Poll::Ready(());
            };
            let Poll::Ready(answer) = Pin::new(&mut in_flight).poll(cx) else {
                if let Some(in_flight) = polled.put_back(in_flight) {
                    core.await_elsewhere(in_flight);
                    self.forget(core);
                    return Poll::Ready(());
                }
                return Poll::Pending;
            };
            polled.answered();
            self.forget(core);
            core.answered(answer, Some(self));
        }
        Poll::Ready(())
    }

    fn forget(&mut self, core: &Arc<Core>) -> Option<Arc<Polled>> {
        let (polled, entry) = self.in_flight.take()?;
        if let Some(entry) = entry {
            core.lookout.forget(entry);
        }
        Some(polled)
    }

    /// The caller stops awaiting the command; the I/O thread awaits it instead.
    pub(super) fn hand_over(&mut self, core: &Arc<Core>) {
        if core.is_forked() {
            // The parent process awaits it. Nothing that it shares with connections may be touched here, and a thread
            // that does not exist here may hold the mutexes.
            std::mem::forget(self.in_flight.take());
            return;
        }
        let in_flight = self.forget(core).and_then(|polled| polled.leave());
        if let Some(in_flight) = in_flight.filter(|_| commands_are_handed_over()) {
            core.await_elsewhere(in_flight);
        }
    }
}

/// A command is answered whether its caller is polled or not.
fn commands_are_taken_over() -> bool {
    !mutated!(CommandLeftToCaller)
}

/// The reply to every command reaches the engine, also if its caller has stopped waiting for it.
fn commands_are_handed_over() -> bool {
    !mutated!(CommandDroppedWithCaller)
}

/// Whatever was sent before the panic may be applied.
fn unanswered(panicked: Panicked) -> StoreError {
    StoreError::new(Failure::Unknown, panicked)
}

pub(super) fn all_unanswered<T>(count: usize, panicked: Panicked) -> Vec<OpResult<T>> {
    fail_all(count, &unanswered(panicked))
}

/// A command whose place in the order is fixed.
pub(super) enum Begun<T> {
    Answered(T),
    UnderWay(BoxFuture<T>),
}

/// Sends a command and gives it its place in the order, in the process that the manager was `made_in` and in no copy
/// of it. A panic counts as a reply that did not come.
pub(super) fn begin_one<T>(made_in: &Process, send: impl FnOnce() -> Sending<T>) -> Begun<OpResult<T>> {
    if made_in.is_any_other() {
        return Begun::Answered(Err(process::forked()));
    }
    let begun = contained(|| match send() {
        Sending::Ready(result) => Begun::Answered(result),
        Sending::Pending(answer) => begin(answer),
    });
    begun.unwrap_or_else(|panicked| Begun::Answered(Err(unanswered(panicked))))
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
    use crate::protocol::{Time, op};

    /// The same event may send releases of other leases, which have ended by then.
    #[test]
    fn a_caller_awaits_the_release_of_its_own_lease_only() {
        let mut context = Context { key: "k".into(), token: Token(1), sent: Time(0) };
        let releasing = Releasing { sends: 1, deadline: None, until: None, keep_until: None };
        let op = op::Release::new(Token(1), op::Ends::Other);
        let release = Command::Release(releasing, op);
        let kind = AwaitedKind::Release(Token(1));
        assert!(kind.covers(&context, &release));
        assert!(!AwaitedKind::Renew(Token(1)).covers(&context, &release));
        context.token = Token(2);
        assert!(!kind.covers(&context, &release));
    }
}
