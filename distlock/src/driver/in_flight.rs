//! Commands in flight, and the callers that await their replies.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context as TaskContext, Poll, Waker, ready};

use super::Core;
use super::idle::Unanswered;
use super::ownership::{self, After, Ownership};
use super::shards::BatchAnswer;
use super::take_over::{EntryId, TakenOver};
use crate::backend::fail_all::fail_all;
use crate::backend::{BoxFuture, Sending};
use crate::contained::{Panicked, contained, poll_contained};
use crate::engine::{
    AcquirePurpose, Answer, Command, Confirmation, Context, Failed, ReleasePurpose, RenewPurpose,
};
use crate::process::{self, Process};
use crate::protocol::{
    AcquireReply, BatchReply, Failure, OpResult, ReleaseReply, RenewReply, StoreError, Token, mutated,
};

/// A command whose reply is awaited.
pub(super) enum InFlight {
    Acquire(Context, AcquirePurpose, Answering<OpResult<AcquireReply>>),
    /// Counted until the engine has the reply.
    Release(Context, ReleasePurpose, Answering<OpResult<ReleaseReply>>, Option<Unanswered>),
    Renew(Context, RenewPurpose, Answering<OpResult<RenewReply>>),
    /// One command for several keys.
    AcquireAll(Vec<(Context, AcquirePurpose)>, Answering<Vec<OpResult<BatchReply>>>),
}

/// The future of a reply. It is only used through `&mut`, so the mutex is never locked. The mutex only makes the
/// caller's future `Sync` if the backend's future is not.
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
    /// Polls the future. A panic is a result, too.
    fn poll(&mut self, cx: &mut TaskContext<'_>) -> Poll<OpResult<T>> {
        poll_contained(self.as_mut(), cx)
            .map(|result| result.unwrap_or_else(|panicked| Err(unanswered(panicked))))
    }
}

/// The result of a command, or of a command for several keys.
pub(super) enum Answered {
    One(Context, Answer, Option<Unanswered>),
    AcquireAll(Vec<BatchAnswer>),
}

impl Future for InFlight {
    type Output = Answered;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Answered> {
        match &mut *self {
            InFlight::Acquire(context, asked, answer) => {
                let one = |result| Answered::One(context.clone(), Answer::Acquire(*asked, result), None);
                answer.poll(cx).map(one)
            }
            InFlight::Release(context, asked, answer, unanswered) => {
                let result = ready!(answer.poll(cx));
                let answer = Answer::Release(*asked, result);
                Poll::Ready(Answered::One(context.clone(), answer, unanswered.take()))
            }
            InFlight::Renew(context, asked, answer) => {
                let one = |result| Answered::One(context.clone(), Answer::Renew(*asked, result), None);
                answer.poll(cx).map(one)
            }
            InFlight::AcquireAll(asked, answer) => poll_contained(answer.as_mut(), cx).map(|results| {
                let asked = std::mem::take(asked);
                let results = results.unwrap_or_else(|panicked| all_unanswered(asked.len(), panicked));
                Answered::AcquireAll(batch_answers(asked, results))
            }),
        }
    }
}

/// Awaits the reply to a command. An error means that its future has panicked.
pub(super) async fn answer<T>(mut answer: BoxFuture<T>) -> Result<T, Panicked> {
    poll_fn(|cx| poll_contained(answer.as_mut(), cx)).await
}

/// Assigns a result to every command, even if the store returned another number of results.
pub(super) fn pair<C, T>(
    commands: Vec<C>,
    results: Vec<OpResult<T>>,
) -> impl Iterator<Item = (C, OpResult<T>)> {
    let missing = || StoreError::new(Failure::Unknown, "the server answered fewer commands than were sent");
    let results = results.into_iter().chain(std::iter::repeat_with(move || Err(missing())));
    commands.into_iter().zip(results)
}

/// Assigns a result to every key of a command for several keys.
pub(super) fn batch_answers(
    asked: Vec<(Context, AcquirePurpose)>,
    results: Vec<OpResult<BatchReply>>,
) -> Vec<BatchAnswer> {
    pair(asked, results).map(|((context, asked), result)| (context, asked, result)).collect()
}

/// The command of an event that the caller awaits itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AwaitedKind {
    Acquire,
    /// Only of this token, because an event may also send releases of other tokens.
    Release(Token),
    /// Only one that a holder asked for: a reply may lead to more renewals of the same token, whose replies say nothing
    /// about it.
    Renew(Token),
    /// No caller awaits a command.
    None,
}

impl AwaitedKind {
    pub(super) fn covers(self, context: &Context, command: &Command) -> bool {
        match (self, command) {
            (AwaitedKind::Acquire, Command::Acquire(..) | Command::Replace(..)) => true,
            (AwaitedKind::Release(token), Command::Release(..)) => token == context.token,
            (AwaitedKind::Renew(token), Command::Renew(asked, _)) => {
                token == context.token && asked.ticket.is_some()
            }
            _ => false,
        }
    }
}

/// A command that a caller polls, or that the I/O thread has taken over because others may wait for the reply.
pub(super) struct CallerPolled {
    core: Weak<Core>,
    kind: AwaitedKind,
    /// While the command is polled, it is taken out of here, so the mutex is not held.
    ownership: Mutex<Ownership<InFlight, Confirmation>>,
}

/// The result of a caller's poll.
enum CallerPoll {
    Reply(Answered),
    /// The I/O thread has awaited the command.
    Over(Confirmation),
}

impl CallerPolled {
    fn new(core: &Arc<Core>, kind: AwaitedKind, in_flight: InFlight) -> Arc<Self> {
        let ownership = Mutex::new(Ownership::WithCaller(in_flight, None));
        Arc::new(CallerPolled { core: Arc::downgrade(core), kind, ownership })
    }

    fn ownership(&self) -> MutexGuard<'_, Ownership<InFlight, Confirmation>> {
        self.ownership.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll(self: &Arc<Self>, cx: &mut TaskContext<'_>) -> Poll<CallerPoll> {
        // Cloned before the command is taken, because a waker is foreign code and may panic.
        let mut mine = Some(cx.waker().clone());
        let found = self.ownership().poll(&mut mine);
        let (mut in_flight, former) = match found {
            ownership::Found::Work(in_flight, former) => (in_flight, former),
            ownership::Found::Answer(confirmation) => return Poll::Ready(CallerPoll::Over(confirmation)),
            ownership::Found::WithIoThread => return Poll::Pending,
            ownership::Found::Nothing => return Poll::Ready(CallerPoll::Over(Ok(()))),
        };
        drop(contained(|| drop(former)));
        if let Poll::Ready(answered) = Pin::new(&mut in_flight).poll(cx) {
            self.ownership().ready();
            return Poll::Ready(CallerPoll::Reply(answered));
        }
        let after = self.ownership().put_back(in_flight, mine);
        match after {
            After::Stays => Poll::Pending,
            After::TakenOver(in_flight) => {
                self.clone().carry_on(in_flight);
                Poll::Pending
            }
            After::Ends(in_flight, mine) => {
                drop(contained(|| drop((in_flight, mine))));
                Poll::Ready(CallerPoll::Over(ended()))
            }
        }
    }

    /// The I/O thread awaits the reply, and passes it to the caller.
    fn carry_on(self: Arc<Self>, in_flight: InFlight) {
        let kind = self.kind;
        let core = self.core.upgrade();
        let teller = Teller { caller: self, confirmation: ended() };
        let Some(core) = core else { return };
        let polled = CallerPolled::new(&core, kind, in_flight);
        let mut command = AwaitedCommand { in_flight: Some((polled, None)), ..AwaitedCommand::new(kind) };
        core.clone().on_io_thread(async move {
            poll_fn(|cx| command.poll(&core, cx)).await;
            teller.tell(command.answer());
        });
    }
}

impl TakenOver for CallerPolled {
    fn take_over(self: Arc<Self>) {
        let in_flight = self.ownership().take_over();
        if let Some(in_flight) = in_flight {
            self.carry_on(in_flight);
        }
    }

    fn end(&self) {
        let left = self.ownership().end(ended());
        if let Some((in_flight, waker)) = left {
            drop(contained(|| drop(in_flight)));
            drop(contained(|| waker.map(Waker::wake)));
        }
    }
}

/// Notifies the caller in any case, even if the I/O thread ends.
struct Teller {
    caller: Arc<CallerPolled>,
    confirmation: Confirmation,
}

impl Teller {
    fn tell(mut self, confirmation: Confirmation) {
        self.confirmation = confirmation;
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        let confirmation = std::mem::replace(&mut self.confirmation, Ok(()));
        let (waker, unwanted) = self.caller.ownership().answer(confirmation);
        drop(unwanted);
        drop(contained(|| waker.map(Waker::wake)));
    }
}

fn ended() -> Confirmation {
    Err(Failed::Unconfirmed(StoreError::new(Failure::Unknown, "the manager's I/O thread has ended")))
}

/// The caller's part of an event: the one command that it awaits, or its result.
pub(super) struct AwaitedCommand {
    pub(super) kind: AwaitedKind,
    pub(super) in_flight: Option<(Arc<CallerPolled>, Option<EntryId>)>,
    pub(super) confirmation: Option<Confirmation>,
}

impl AwaitedCommand {
    pub(super) fn new(kind: AwaitedKind) -> Self {
        AwaitedCommand { kind, in_flight: None, confirmation: None }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.in_flight.is_some()
    }

    /// The reply for the caller, after the command has ended. It is `Ok` if there was no command.
    pub(super) fn answer(&mut self) -> Confirmation {
        self.confirmation.take().unwrap_or(Ok(()))
    }

    /// From now on, the caller awaits this command, until the I/O thread takes it over.
    pub(super) fn begins(&mut self, core: &Arc<Core>, in_flight: InFlight) {
        let polled = CallerPolled::new(core, self.kind, in_flight);
        let entry = if commands_are_taken_over() { core.take_over_timer.keep(polled.clone()) } else { None };
        self.in_flight = Some((polled, entry));
    }

    /// Polls the command. Ready if there is no command, or no longer one.
    pub(super) fn poll(&mut self, core: &Arc<Core>, cx: &mut TaskContext<'_>) -> Poll<()> {
        while let Some((polled, _)) = &self.in_flight {
            let found = ready!(polled.poll(cx));
            self.forget(core);
            match found {
                CallerPoll::Reply(answered) => core.answered(answered, Some(self)),
                CallerPoll::Over(confirmation) => self.confirmation = Some(confirmation),
            }
        }
        Poll::Ready(())
    }

    pub(super) fn forget(&mut self, core: &Arc<Core>) -> Option<Arc<CallerPolled>> {
        let (polled, entry) = self.in_flight.take()?;
        if let Some(entry) = entry {
            core.take_over_timer.forget(entry);
        }
        Some(polled)
    }
}

/// A rule that tests can break: a command gets its reply whether or not its caller is polled.
fn commands_are_taken_over() -> bool {
    !mutated!(CommandLeftToCaller)
}

/// The command may have been sent before the panic, so it may be applied.
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

/// Sends a command, and so fixes its place in the order. It does so only in the process that the manager was `made_in`,
/// and not in a fork. A panic counts as a missing reply.
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

/// Fixes the place of a command in the order, without a wait for the reply.
pub(super) fn begin<T>(mut answer: BoxFuture<T>) -> Begun<T> {
    let polled = Pin::new(&mut answer).poll(&mut TaskContext::from_waker(Waker::noop()));
    match polled {
        Poll::Ready(result) => Begun::Answered(result),
        Poll::Pending => Begun::UnderWay(answer),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::lease_cell::Ticket;
    use crate::protocol::{LockKind, Time, op};
    use crate::simulation::wakes::Wakes;

    /// The same event may send releases of other leases that have ended.
    #[test]
    fn a_caller_awaits_the_release_of_its_own_lease_only() {
        let mut context = Context { key: "k".into(), token: Token(1), sent: Time(0) };
        let releasing = ReleasePurpose { sends: 1, deadline: None, until: None, keep_until: None };
        let op = op::Release::new(Token(1), op::Ends::Other);
        let release = Command::Release(releasing, op);
        let kind = AwaitedKind::Release(Token(1));
        assert!(kind.covers(&context, &release));
        assert!(!AwaitedKind::Renew(Token(1)).covers(&context, &release));
        context.token = Token(2);
        assert!(!kind.covers(&context, &release));
    }

    /// A reply that shows a step of the server's clock leads to another renewal.
    #[test]
    fn a_caller_awaits_the_renewal_that_a_holder_asked_for_only() {
        let context = Context { key: "k".into(), token: Token(1), sent: Time(0) };
        let ttl = Duration::from_secs(10);
        let op = op::Renew { token: Token(1), kind: LockKind::Exclusive, ttl, last: false };
        let renewal = |ticket| Command::Renew(RenewPurpose { ticket, ttl }, op);
        assert!(AwaitedKind::Renew(Token(1)).covers(&context, &renewal(Some(Ticket(1)))));
        assert!(!AwaitedKind::Renew(Token(2)).covers(&context, &renewal(Some(Ticket(1)))));
        assert!(!AwaitedKind::Renew(Token(1)).covers(&context, &renewal(None)));
    }

    #[test]
    fn a_caller_learns_of_the_end_of_the_io_thread() {
        let context = Context { key: "k".into(), token: Token(1), sent: Time(0) };
        let releasing = ReleasePurpose { sends: 1, deadline: None, until: None, keep_until: None };
        let never: BoxFuture<OpResult<ReleaseReply>> = Box::pin(std::future::pending());
        let ownership =
            Ownership::WithCaller(InFlight::Release(context, releasing, never.into(), None), None);
        let kind = AwaitedKind::Release(Token(1));
        let polled = Arc::new(CallerPolled { core: Weak::new(), kind, ownership: Mutex::new(ownership) });
        let wakes = Wakes::default();
        let waker = wakes.waker();
        assert!(polled.poll(&mut TaskContext::from_waker(&waker)).is_pending());
        polled.end();
        assert_eq!(wakes.count(), 1);
        let found = polled.poll(&mut TaskContext::from_waker(&waker));
        assert!(matches!(found, Poll::Ready(CallerPoll::Over(Err(Failed::Unconfirmed(_))))));
    }
}
