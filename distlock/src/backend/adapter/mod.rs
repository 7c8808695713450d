//! Makes a backend from a [`LockStore`], and hides the engine from the store.
//!
//! Commands take their place in the order when they are sent (see [`lanes`]). If a command has its turn at once, its
//! caller polls it, for a limited time (see [`called`]). The I/O thread executes all others, each in a separate task.
//! The task always answers: with the store's reply, or after [`LATE_COMMANDS`] with [`Failure::Unknown`]. The store's
//! future continues after that. Its keys wait for it, so that a release cannot overtake the acquisition that it undoes.
//! They wait for at most [`LATE_COMMANDS`] more, because by the contract, the command cannot be executed later.

mod called;
mod command;
mod lanes;
mod reports;
mod several;
#[cfg(test)]
mod tests;
mod translate;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    Backend, BatchPart, BatchReply, BoxFuture, Demand, Events, Failure, HoldNote, LATE_COMMANDS, ListPage,
    OpResult, Others, PushHint, Sending, ServerTime, StoredLock, Token, Tuning, op,
};
use crate::backend::{ConnectOn, not_examined};
use crate::error::LockError;
use crate::key::LockKey;
use crate::process::Process;
use crate::protocol;
use called::{AnswerFrom, Called, StoreAnswer};
use command::{EndOfLanes, QueuedCommand, Started, Submitted, TimedReply, Turn, Work, in_time};
use distlock_store::clock;
use distlock_store::kit::sync::Locked;
use distlock_store::{
    Abilities, AcquireReply, Finding, List, LockStore, Owner, Publish, Queue, Release, ReleaseReply,
    ReplaceReply, StoreError,
};
use lanes::{Added, Lanes};
use reports::{Reports, StoreLink};
use translate::Translator;

/// The most locks on one page of a list.
const LISTED_TOGETHER: usize = 500;

/// A store, with everything that makes a backend of it.
pub(crate) struct StoreBackend<S> {
    /// Itself, for its tasks.
    this: Weak<StoreBackend<S>>,
    store: S,
    abilities: Abilities,
    translator: Translator,
    link: Locked<StoreLink>,
    /// A request needs the store.
    wanted: watch::Sender<bool>,
    lanes: Arc<Locked<Lanes<QueuedCommand>>>,
    start: mpsc::UnboundedSender<Started>,
    /// The other end, until the I/O thread takes it.
    started: Locked<Option<mpsc::UnboundedReceiver<Started>>>,
    /// The runtime of the I/O thread, once it runs.
    io_thread: OnceLock<Handle>,
    made_in: Process,
    /// The latest time that was given to a command, in microseconds of our clock. Every command gets its own time.
    asked: AtomicU64,
    /// Where grants are reported for which no request waited any longer.
    events: Locked<Option<Weak<dyn Events>>>,
}

/// The things that every command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Connection,
    Session,
}

/// The task that polls a command whose turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PolledBy {
    /// The driver limits that to a moment.
    Caller,
    /// No task would take it over.
    IoThread,
}

/// The result of an operation that has its place in the order.
type Coming<T> = BoxFuture<OpResult<T>>;

impl<S: LockStore> StoreBackend<S> {
    pub(crate) fn new(store: S, client: Arc<str>, prefix: String, connect: ConnectOn) -> Arc<Self> {
        let abilities = store.abilities();
        let translator = Translator::new(client, prefix, &abilities);
        let (start, started) = mpsc::unbounded_channel();
        Arc::new_cyclic(|this| StoreBackend {
            this: this.clone(),
            store,
            abilities,
            translator,
            link: Locked::default(),
            wanted: watch::Sender::new(connect == ConnectOn::Start),
            lanes: Arc::default(),
            start,
            started: Locked::new(Some(started)),
            io_thread: OnceLock::new(),
            made_in: Process::current(),
            asked: AtomicU64::new(0),
            events: Locked::default(),
        })
    }

    pub(crate) fn tuning(&self) -> &Tuning {
        self.translator.tuning()
    }

    pub(crate) fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    /// Why nothing can be sent, if so.
    fn refusal(&self, need: Need) -> Option<StoreError> {
        let refused = |text| StoreError::new(Failure::NotSent, text);
        // The store describes itself only when this mutex is free again.
        let usable = self.link.lock().is_usable();
        if let Err(cause) = usable {
            // An idle store begins to connect.
            self.wanted.send_if_modified(|wanted| !std::mem::replace(wanted, true));
            let not_yet = || refused(format!("not connected to {} yet", self.store.describe()));
            return Some(cause.unwrap_or_else(not_yet));
        }
        let session = self.translator.session().filter(|_| need == Need::Session)?;
        let no_session = || refused(format!("no session with {}", self.store.describe()));
        session.is_over(clock::now()).then(no_session)
    }

    /// The moment at which a command is passed to the store, by our clock: later than that of every command that
    /// was executed before.
    fn ask(&self) -> ServerTime {
        let now = clock::now().0 / 1_000;
        let later = |last: u64| now.max(last.saturating_add(1));
        let last = self.asked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(later(last)));
        ServerTime(last.map_or(now, later))
    }

    /// Gives a command its place in the order. `call` is called when its turn comes, with the time of this moment. A
    /// reply that comes too late goes to `late`.
    fn submit<T, C, L>(
        &self,
        keys: Arc<[Arc<str>]>,
        (need, polled_by): (Need, PolledBy),
        call: C,
        late: L,
    ) -> Result<impl Future<Output = TimedReply<T>> + Send + use<S, T, C, L>, StoreError>
    where
        T: Send + 'static,
        C: FnOnce(Arc<Self>) -> BoxFuture<Result<T, StoreError>> + Send + 'static,
        L: FnOnce(&Self, T) + Send + 'static,
    {
        if let Some(error) = self.refusal(need) {
            return Err(error);
        }
        let Some(this) = self.this.upgrade() else { return Err(ended()) };
        let submitted = Submitted::now();
        let mut lanes = self.lanes.lock();
        match lanes.add(&keys) {
            Added::Start(id) => {
                drop(lanes);
                let io_thread = self.io_thread.get().filter(|_| polled_by == PolledBy::Caller);
                let Some(io_thread) = io_thread else {
                    let (work, answer) = this.queue(submitted, need, call, late);
                    // Fails at the end of the manager, which the answer reports.
                    drop(self.start.send((id, QueuedCommand { keys, work })));
                    return Ok(self.answer(AnswerFrom::IoThread(answer)));
                };
                let turn = Turn::new(id, keys, &self.lanes, &self.start);
                let asked = self.ask();
                let call = call(this.clone());
                let late = move |said| late(&this, said);
                let io_thread = io_thread.clone();
                let called = Called { call, turn, late, io_thread, submitted, asked };
                Ok(self.answer(AnswerFrom::Store(Some(called))))
            }
            Added::Waits(behind) => {
                let (work, answer) = this.queue(submitted, need, call, late);
                lanes.wait(behind, QueuedCommand { keys, work });
                Ok(self.answer(AnswerFrom::IoThread(answer)))
            }
            Added::Ended => Err(StoreError { kind: Failure::NotSent, ..ended() }),
            Added::Full => {
                Err(StoreError::new(Failure::NotSent, "too many commands wait for their turn on one key"))
            }
        }
    }

    /// A command that no caller polls. Its result changes nothing if it is late.
    fn on_io_thread<T, C>(&self, keys: Arc<[Arc<str>]>, call: C) -> BoxFuture<Result<T, StoreError>>
    where
        T: Send + 'static,
        C: FnOnce(Arc<Self>) -> BoxFuture<Result<T, StoreError>> + Send + 'static,
    {
        let answer = self.submit(keys, (Need::Connection, PolledBy::IoThread), call, |_, _| {});
        Box::pin(async { answer?.await.map(|(said, _)| said) })
    }

    fn answer<T: Send, L: FnOnce(T) + Send>(&self, from: AnswerFrom<T, L>) -> StoreAnswer<T, L> {
        StoreAnswer { made_in: self.made_in.clone(), from }
    }

    /// The work of the I/O thread for a command whose turn has come, and the receiver of the answer.
    fn queue<T, C, L>(
        self: Arc<Self>,
        submitted: Submitted,
        need: Need,
        call: C,
        late: L,
    ) -> (Work, oneshot::Receiver<TimedReply<T>>)
    where
        T: Send + 'static,
        C: FnOnce(Arc<Self>) -> BoxFuture<Result<T, StoreError>> + Send + 'static,
        L: FnOnce(&Self, T) + Send + 'static,
    {
        let (sender, answer) = oneshot::channel();
        let work = async move |turn: Turn| {
            let outdated = submitted.is_outdated().then(|| {
                StoreError::new(Failure::NotSent, "the commands before it on the same key took too long")
            });
            // No task awaits the answer if the manager has ended.
            if let Some(error) = outdated.or_else(|| self.refusal(need)) {
                drop(sender.send(Err(error)));
                return;
            }
            let asked = self.ask();
            let tell = |said: Result<T, StoreError>| drop(sender.send(said.map(|said| (said, asked))));
            let call = call(self.clone());
            in_time(call, LATE_COMMANDS, turn, tell, |said| late(&self, said)).await;
        };
        (Box::new(move |turn| Box::pin(work(turn))), answer)
    }

    fn begin_acquire(
        &self,
        key: &Arc<str>,
        op: op::Ask,
    ) -> Result<Coming<protocol::AcquireReply>, StoreError> {
        let (token, request) = (op.token(), self.translator.ask(key, op));
        let (queue, name, sent) = (request.queue, key.clone(), request.clone());
        let late = move |this: &Self, reply| this.late(&name, token, queue.as_ref(), &reply);
        let call = |this: Arc<Self>| boxed(async move { this.store.acquire(&sent).await });
        let answer = self.submit(Arc::new([key.clone()]), (Need::Session, PolledBy::Caller), call, late)?;
        Ok(Box::pin(async move {
            let (reply, asked) = answer.await?;
            Translator::acquired(&request, reply, asked)
        }))
    }

    fn begin_replace(
        &self,
        key: &Arc<str>,
        op: &op::Replace,
    ) -> Result<Coming<protocol::AcquireReply>, StoreError> {
        let (token, request) = (op.token, self.translator.replace(key, op));
        let (name, sent) = (key.clone(), request.clone());
        let late = move |this: &Self, reply| {
            if reply != ReplaceReply::NotHeld {
                this.undo(&name, token);
            }
        };
        let call = |this: Arc<Self>| boxed(async move { this.store.replace(&sent).await });
        let answer = self.submit(Arc::new([key.clone()]), (Need::Session, PolledBy::Caller), call, late)?;
        Ok(Box::pin(async move {
            let (reply, asked) = answer.await?;
            Translator::replaced(&request, reply, asked)
        }))
    }

    fn begin_release(
        &self,
        key: &Arc<str>,
        op: op::Release,
    ) -> Result<Coming<protocol::ReleaseReply>, StoreError> {
        let request = self.translator.release(key, op);
        let call = |this: Arc<Self>| boxed(async move { this.store.release(&request).await });
        let answer =
            self.submit(Arc::new([key.clone()]), (Need::Connection, PolledBy::Caller), call, |_, _| {})?;
        Ok(Box::pin(async { answer.await.map(|(reply, _)| Translator::released(reply)) }))
    }

    fn begin_renew(
        &self,
        key: &Arc<str>,
        op: op::Renew,
        polled_by: PolledBy,
    ) -> Result<Coming<protocol::RenewReply>, StoreError> {
        let (request, is_last) = (self.translator.renew(key, op), op.last);
        let call = move |this: Arc<Self>| {
            boxed(async move {
                if is_last { this.store.hand_over(&request).await } else { this.store.renew(&request).await }
            })
        };
        let answer = self.submit(Arc::new([key.clone()]), (Need::Connection, polled_by), call, |_, _| {})?;
        Ok(Box::pin(async { answer.await.map(|(reply, asked)| Translator::renewed(reply, asked)) }))
    }

    /// The store has answered an acquisition that was cancelled: if no request uses it, it must be released.
    fn late(&self, key: &Arc<str>, token: Token, queue: Option<&Queue>, reply: &AcquireReply) {
        if reply.is_acquired() || (queue.is_some() && matches!(reply, AcquireReply::Busy(_))) {
            self.undo(key, token);
        }
    }

    fn undo(&self, key: &Arc<str>, token: Token) {
        let events = self.events.lock().as_ref().and_then(Weak::upgrade);
        if let Some(events) = events {
            events.notice(PushHint::Unproven { key: key.clone(), token });
        }
    }

    /// The store's own work, and the delivery of its reports.
    async fn work(self: Arc<Self>, events: Arc<dyn Events>) {
        *self.events.lock() = Some(Arc::downgrade(&events));
        if let Some(started) = self.started.lock().take() {
            tokio::spawn(command::dispatch(started, EndOfLanes(self.lanes.clone()), self.start.clone()));
            self.io_thread.get_or_init(Handle::current);
        }
        // The store has panicked. No task keeps that session alive, and heartbeats of the next one say nothing about
        // its leases.
        if self.translator.session().is_some_and(|session| session.has_begun()) {
            self.session_lost(clock::now(), &*events);
        }
        let _closes = CloseWhenDropped(&self);
        let (reports, receiver) = Reports::new(&self);
        tokio::select! {
            () = self.store.run(reports) => {}
            () = receiver.deliver(&self, &*events) => {}
        }
    }
}

/// Nothing is sent after the store's work has ended, independent of its last report.
struct CloseWhenDropped<'a, S>(&'a StoreBackend<S>);

impl<S> Drop for CloseWhenDropped<'_, S> {
    fn drop(&mut self) {
        self.0.link.lock().close();
    }
}

impl<S: LockStore> Backend for StoreBackend<S> {
    fn send_acquire(&self, key: &Arc<str>, op: op::Ask) -> Sending<protocol::AcquireReply> {
        sending(self.begin_acquire(key, op))
    }

    fn cannot_replace(&self) -> Option<String> {
        (!self.abilities.replaces).then(|| format!("{} does not hand a lock over", self.store.describe()))
    }

    fn send_replace(&self, key: &Arc<str>, op: op::Replace) -> Sending<protocol::AcquireReply> {
        sending(self.begin_replace(key, &op))
    }

    fn send_release(&self, key: &Arc<str>, op: op::Release) -> Sending<protocol::ReleaseReply> {
        sending(self.begin_release(key, op))
    }

    fn send_renew(&self, key: &Arc<str>, op: op::Renew) -> Sending<protocol::RenewReply> {
        sending(self.begin_renew(key, op, PolledBy::Caller))
    }

    fn send_renew_all(&self, batch: Vec<(Arc<str>, op::Renew)>) -> Vec<BatchPart<protocol::RenewReply>> {
        self.begin_renew_all(batch)
    }

    fn acquires_all(&self, keys: &[Arc<str>]) -> usize {
        keys.len().min(self.abilities.acquires_together)
    }

    fn send_acquire_all(&self, batch: Vec<(Arc<str>, op::Acquire)>) -> BoxFuture<Vec<OpResult<BatchReply>>> {
        self.begin_acquire_all(batch)
    }

    fn inspect(&self, key: &Arc<str>) -> BoxFuture<Result<Option<StoredLock>, StoreError>> {
        let full = self.translator.full(key);
        let call = |this: Arc<Self>| boxed(async move { this.store.inspect(&full).await });
        // It waits for no other command, so it may show the state before one that is in progress.
        let answer = self.on_io_thread(Arc::new([]), call);
        Box::pin(async { answer.await.map(|found| found.map(StoredLock::longest_first)) })
    }

    fn others(&self) -> Others {
        if self.abilities.lists { Others::Listed } else { Others::Unknown }
    }

    fn list(&self, beginning: &str, after: Option<Arc<str>>) -> BoxFuture<Result<ListPage, StoreError>> {
        let beginning = self.translator.full(beginning).to_string();
        let after = after.map(|after| self.translator.full(&after).to_string());
        let request = List::new(beginning, after, LISTED_TOGETHER);
        let call = |this: Arc<Self>| boxed(async move { this.store.list(&request).await });
        let answer = self.on_io_thread(Arc::new([]), call);
        let this = self.this.clone();
        Box::pin(async move {
            let page = answer.await?;
            let this = this.upgrade().ok_or_else(ended)?;
            Ok(this.translator.page(page))
        })
    }

    fn publishes(&self) -> bool {
        self.abilities.publishes
    }

    fn publish(&self, note: HoldNote) -> BoxFuture<Result<(), StoreError>> {
        let HoldNote { key, hold, value, .. } = note;
        let owner = Owner::of(&self.translator.client, hold.token);
        let request = Publish::new(self.translator.full(&key), &owner, value.unwrap_or_default());
        let call = |this: Arc<Self>| boxed(async move { this.store.publish(&request).await });
        self.on_io_thread(Arc::new([key]), call)
    }

    fn unpublish(&self, note: HoldNote) -> BoxFuture<Result<(), StoreError>> {
        if !self.publishes() {
            return Box::pin(std::future::ready(Ok(())));
        }
        let owner = Owner::of(&self.translator.client, note.hold.token);
        let request = Publish::new(self.translator.full(&note.key), &owner, "");
        let call = |this: Arc<Self>| boxed(async move { this.store.unpublish(&request).await });
        self.on_io_thread(Arc::new([note.key]), call)
    }

    fn diagnose(&self) -> BoxFuture<Result<Vec<Finding>, StoreError>> {
        let call = |this: Arc<Self>| boxed(async move { this.store.diagnose().await });
        let answer = self.on_io_thread(Arc::new([]), call);
        let place = self.store.describe();
        Box::pin(async move {
            let mut found = answer.await?;
            if found.is_empty() {
                return Ok(vec![not_examined()]);
            }
            for finding in &mut found {
                finding.about = format!("{place}: {}", finding.about);
            }
            Ok(found)
        })
    }

    fn force_release(&self, key: &Arc<str>) -> BoxFuture<Result<bool, StoreError>> {
        let full = self.translator.full(key);
        let call = |this: Arc<Self>| boxed(async move { this.store.force_release(&full).await });
        self.on_io_thread(Arc::new([key.clone()]), call)
    }

    fn force_release_from(&self, key: &Arc<str>, owner: &Arc<str>) -> BoxFuture<Result<bool, StoreError>> {
        let request = Release::new(self.translator.full(key), &Owner::of_text(owner));
        let call = |this: Arc<Self>| boxed(async move { this.store.release(&request).await });
        let answer = self.on_io_thread(Arc::new([key.clone()]), call);
        Box::pin(async { answer.await.map(|reply| reply == ReleaseReply::Released) })
    }

    fn run(self: Arc<Self>, events: Arc<dyn Events>) -> BoxFuture<()> {
        Box::pin(self.work(events))
    }

    fn close(self: Arc<Self>) -> BoxFuture<()> {
        boxed(async move { self.store.close().await })
    }

    fn check(&self, demand: &Demand) -> Result<(), LockError> {
        translate::check(&self.abilities, &self.store.describe(), demand)
    }

    fn check_key(&self, key: &LockKey) -> Result<(), LockError> {
        let objection = self.abilities.keys.objection(&self.translator.full(key.as_str()));
        objection.map_or(Ok(()), |reason| Err(LockError::key(reason)))
    }

    fn describe(&self) -> String {
        self.store.describe()
    }

    fn prefix(&self) -> &str {
        &self.translator.prefix
    }
}

impl<S: LockStore> fmt::Debug for StoreBackend<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreBackend").field("store", &self.store).finish_non_exhaustive()
    }
}

fn sending<T>(begun: Result<Coming<T>, StoreError>) -> Sending<T> {
    match begun {
        Ok(answer) => Sending::Pending(answer),
        Err(error) => Sending::Ready(Err(error)),
    }
}

fn boxed<T>(call: impl Future<Output = T> + Send + 'static) -> BoxFuture<T> {
    Box::pin(call)
}

fn ended() -> StoreError {
    StoreError::new(Failure::Unknown, "the manager has ended")
}
