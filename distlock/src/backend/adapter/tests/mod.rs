//! A test plays the store, command by command.

mod called;
mod closing;
mod hazards;
mod in_background;
mod notifications;
mod order;
mod sessions;
mod words;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::StoreBackend;
use crate::backend::ConnectOn;
use crate::backend::{
    AcquireMode, Backend, Events, LinkEvent, LockKind, Notifications, OpResult, Push, PushHint, Sending,
    ServerTime, Token, op,
};
use crate::protocol;
use distlock_store::kit::sync::Locked;
use distlock_store::{
    Abilities, Acquire, AcquireReply, EarlierCommands, LockStore, Owner, Release, ReleaseReply, Renew,
    RenewReply, StoreError, StoreEvents, StoredLock, Waiting,
};

const TTL: Duration = Duration::from_secs(10);

/// An operation on the store, and where the answer goes.
#[derive(Debug)]
enum Call {
    Acquire(Acquire, Answer<AcquireReply>),
    AcquireAll(Vec<Acquire>, Answer<Vec<AcquireReply>>),
    Renew(Renew, Answer<RenewReply>),
    RenewAll(Vec<Renew>, Answer<Vec<RenewReply>>),
    Release(Release, Answer<ReleaseReply>),
}

/// If it is dropped without an answer, the store panics.
type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// Does what the test says.
#[derive(Debug)]
struct Scripted {
    abilities: Abilities,
    calls: mpsc::UnboundedSender<Call>,
    events: mpsc::UnboundedSender<StoreEvents>,
}

impl Scripted {
    async fn ask<T>(&self, call: impl FnOnce(Answer<T>) -> Call) -> Result<T, StoreError> {
        let (answer, reply) = oneshot::channel();
        self.calls.send(call(answer)).expect("the test goes on");
        // Without the panic hook, which prints a backtrace: on a busy machine, that takes as long as a command may.
        reply.await.unwrap_or_else(|_| resume_unwind(Box::new("the test says that the store panics")))
    }
}

impl LockStore for Scripted {
    fn abilities(&self) -> Abilities {
        self.abilities.clone()
    }

    fn describe(&self) -> String {
        "the script".into()
    }

    async fn acquire(&self, request: &Acquire) -> Result<AcquireReply, StoreError> {
        self.ask(|answer| Call::Acquire(request.clone(), answer)).await
    }

    async fn renew(&self, request: &Renew) -> Result<RenewReply, StoreError> {
        self.ask(|answer| Call::Renew(request.clone(), answer)).await
    }

    async fn release(&self, request: &Release) -> Result<ReleaseReply, StoreError> {
        self.ask(|answer| Call::Release(request.clone(), answer)).await
    }

    async fn inspect(&self, _key: &str) -> Result<Option<StoredLock>, StoreError> {
        Ok(None)
    }

    async fn force_release(&self, _key: &str) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn acquire_all(&self, requests: &[Acquire]) -> Result<Vec<AcquireReply>, StoreError> {
        self.ask(|answer| Call::AcquireAll(requests.to_vec(), answer)).await
    }

    async fn renew_all(&self, requests: &[Renew]) -> Result<Vec<RenewReply>, StoreError> {
        self.ask(|answer| Call::RenewAll(requests.to_vec(), answer)).await
    }

    async fn run(&self, events: StoreEvents) {
        self.events.send(events).expect("the test goes on");
        std::future::pending().await
    }
}

/// The test's end of a [`Scripted`] store.
struct Script {
    calls: mpsc::UnboundedReceiver<Call>,
    events: mpsc::UnboundedReceiver<StoreEvents>,
}

fn scripted(abilities: Abilities) -> (Scripted, Script) {
    let (calls, received) = mpsc::unbounded_channel();
    let (events, reported) = mpsc::unbounded_channel();
    (Scripted { abilities, calls, events }, Script { calls: received, events: reported })
}

impl Script {
    async fn next(&mut self) -> Call {
        self.calls.recv().await.expect("the store was asked")
    }

    async fn next_acquire(&mut self) -> (Acquire, Answer<AcquireReply>) {
        match self.next().await {
            Call::Acquire(request, answer) => (request, answer),
            other => panic!("{other:?} instead of an acquisition"),
        }
    }

    async fn next_release(&mut self) -> (Release, Answer<ReleaseReply>) {
        match self.next().await {
            Call::Release(request, answer) => (request, answer),
            other => panic!("{other:?} instead of a release"),
        }
    }

    async fn next_renew(&mut self) -> (Renew, Answer<RenewReply>) {
        match self.next().await {
            Call::Renew(request, answer) => (request, answer),
            other => panic!("{other:?} instead of a renewal"),
        }
    }

    async fn next_renew_all(&mut self) -> (Vec<String>, Answer<Vec<RenewReply>>) {
        match self.next().await {
            Call::RenewAll(requests, answer) => {
                (requests.iter().map(|request| request.key.to_string()).collect(), answer)
            }
            other => panic!("{other:?} instead of renewals"),
        }
    }

    async fn events(&mut self) -> StoreEvents {
        self.events.recv().await.expect("the store runs")
    }

    /// Checks that the store gets no operation until no task can run.
    async fn is_quiet(&mut self) {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert!(self.calls.try_recv().is_err(), "the store was asked");
    }
}

fn acquired() -> Result<AcquireReply, StoreError> {
    Ok(AcquireReply::Acquired { fence: None })
}

/// The reports to the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Up { earlier: EarlierCommands, pushes: Notifications },
    Down,
    Notifications(Notifications),
    Push(Push),
    Notice(PushHint),
    SessionLost,
}

#[derive(Debug, Default)]
struct Record(Locked<Vec<Told>>);

impl Record {
    fn add(&self, told: Told) {
        self.0.lock().push(told);
    }

    fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl Events for Record {
    fn link(&self, event: LinkEvent) {
        self.add(match event {
            LinkEvent::Up { earlier, pushes } => Told::Up { earlier, pushes },
            LinkEvent::Down { .. } => Told::Down,
            LinkEvent::Notifications(pushes) => Told::Notifications(pushes),
        });
    }

    fn push(&self, push: Push) {
        self.add(Told::Push(push));
    }

    fn notice(&self, notice: PushHint) {
        self.add(Told::Notice(notice));
    }

    fn session_lost(&self) {
        self.add(Told::SessionLost);
    }
}

/// An adapter of a scripted store, without an engine. The thread of the test is its I/O thread.
struct Rig {
    backend: Arc<StoreBackend<Scripted>>,
    script: Script,
    events: StoreEvents,
    record: Arc<Record>,
    work: JoinHandle<()>,
}

impl Rig {
    /// Not connected.
    async fn down(abilities: Abilities) -> Rig {
        let (store, mut script) = scripted(abilities);
        let backend = StoreBackend::new(store, "c".into(), "p:".into(), ConnectOn::Start);
        let record = Arc::new(Record::default());
        let work = tokio::spawn(backend.clone().run(record.clone()));
        let events = script.events().await;
        Rig { backend, script, events, record, work }
    }

    /// As after a panic of the store.
    async fn work_begins_again(&mut self) {
        self.work.abort();
        assert!((&mut self.work).await.unwrap_err().is_cancelled());
        self.work = tokio::spawn(self.backend.clone().run(self.record.clone()));
        self.events = self.script.events().await;
    }

    async fn up(abilities: Abilities) -> Rig {
        let rig = Rig::down(abilities).await;
        rig.events.up(EarlierCommands::Ended);
        rig.until_told().await;
        rig.told();
        rig
    }

    async fn until_told(&self) {
        while self.record.0.lock().is_empty() {
            tokio::task::yield_now().await;
        }
    }

    /// The reports since the last call.
    fn told(&self) -> Vec<Told> {
        std::mem::take(&mut *self.record.0.lock())
    }

    fn send<O: SendTo>(&self, key: &str, op: O) -> JoinHandle<OpResult<O::Reply>> {
        let sending = op.send_to(&*self.backend, &key.into());
        tokio::spawn(async move {
            match sending {
                Sending::Ready(result) => result,
                Sending::Pending(answer) => answer.await,
            }
        })
    }
}

/// An operation of any kind.
trait SendTo {
    type Reply: Send + 'static;

    fn send_to(self, backend: &impl Backend, key: &Arc<str>) -> Sending<Self::Reply>;
}

impl<O: Into<op::Ask>> SendTo for O {
    type Reply = protocol::AcquireReply;

    fn send_to(self, backend: &impl Backend, key: &Arc<str>) -> Sending<Self::Reply> {
        backend.send_acquire(key, self.into())
    }
}

impl SendTo for op::Release {
    type Reply = protocol::ReleaseReply;

    fn send_to(self, backend: &impl Backend, key: &Arc<str>) -> Sending<Self::Reply> {
        backend.send_release(key, self)
    }
}

impl SendTo for op::Renew {
    type Reply = protocol::RenewReply;

    fn send_to(self, backend: &impl Backend, key: &Arc<str>) -> Sending<Self::Reply> {
        backend.send_renew(key, self)
    }
}

fn enter(token: u64, mode: AcquireMode, fences: u32) -> op::Acquire {
    let claim = Duration::from_secs(3);
    op::Acquire { token: Token(token), kind: LockKind::Exclusive, ttl: TTL, claim, mode, fences }
}

fn attempt(token: u64) -> op::TryAcquire {
    op::TryAcquire { token: Token(token), ttl: TTL }
}

fn leave(token: u64) -> op::Release {
    op::Release::new(Token(token), op::Ends::Other)
}

fn renew(token: u64) -> op::Renew {
    op::Renew { token: Token(token), kind: LockKind::Exclusive, ttl: TTL, last: false }
}

fn queueing() -> Abilities {
    Abilities::default().waiting(Waiting::Queued)
}

fn owner(token: u64) -> Owner {
    Owner::new("c", token)
}
