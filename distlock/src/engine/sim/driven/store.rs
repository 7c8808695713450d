//! The store for the driver of a simulated process. The world takes its commands, puts them on the wire, and puts the
//! replies into the command's slots.

use std::future::pending;
use std::mem::take;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use super::super::answers::failure;
use crate::backend::{Backend, BatchPart, BoxFuture, Events, Sending, StoredLock};
use crate::engine::Answer;
use crate::protocol::{
    AcquireReply, BatchReply, Failure, OpResult, ReleaseReply, RenewReply, StoreError, op,
};
use distlock_store::kit::sync::Locked;

/// The place for the reply to one operation, and the task that waits for it.
#[derive(Debug)]
pub(in super::super) struct Slot<R>(Locked<(Option<OpResult<R>>, Option<Waker>)>);

impl<R> Slot<R> {
    fn new() -> Arc<Self> {
        Arc::new(Slot(Locked::new((None, None))))
    }

    fn put(&self, result: OpResult<R>) {
        let mut slot = self.0.lock();
        slot.0 = Some(result);
        if let Some(waiter) = slot.1.take() {
            waiter.wake();
        }
    }

    fn is_filled(&self, waiter: &Waker) -> bool {
        let mut slot = self.0.lock();
        if slot.0.is_none() {
            slot.1 = Some(waiter.clone());
        }
        slot.0.is_some()
    }

    fn take(&self) -> OpResult<R> {
        self.0.lock().0.take().unwrap_or_else(|| Err(failure(Failure::Unknown)))
    }
}

/// The slot of any operation.
#[derive(Clone, Debug)]
pub(in super::super) enum Place {
    Acquire(Arc<Slot<AcquireReply>>),
    /// For one of several keys in a command.
    AcquireInBatch(Arc<Slot<BatchReply>>),
    Release(Arc<Slot<ReleaseReply>>),
    Renew(Arc<Slot<RenewReply>>),
}

impl Place {
    pub(in super::super) fn put(&self, answer: Answer) {
        match (self, answer) {
            (Place::Acquire(slot), Answer::Acquire(_, result)) => slot.put(result),
            (Place::AcquireInBatch(slot), Answer::Acquire(_, result)) => {
                slot.put(result.map(BatchReply::Tried));
            }
            (Place::AcquireInBatch(slot), Answer::AcquireInBatch(_, result)) => slot.put(result),
            (Place::Release(slot), Answer::Release(_, result)) => slot.put(result),
            (Place::Renew(slot), Answer::Renew(_, result)) => slot.put(result),
            // The answer to a command of another kind.
            (place, _) => place.fail(Failure::Unknown),
        }
    }

    fn fail(&self, kind: Failure) {
        match self {
            Place::Acquire(slot) => slot.put(Err(failure(kind))),
            Place::AcquireInBatch(slot) => slot.put(Err(failure(kind))),
            Place::Release(slot) => slot.put(Err(failure(kind))),
            Place::Renew(slot) => slot.put(Err(failure(kind))),
        }
    }
}

/// An operation that was sent, and where its reply is put.
#[derive(Debug)]
pub(in super::super) struct Sent<O, R> {
    pub(in super::super) key: Arc<str>,
    pub(in super::super) op: O,
    pub(in super::super) slot: Arc<Slot<R>>,
}

/// Operations that were sent together, in their order.
#[derive(Debug)]
pub(in super::super) enum Outgoing {
    Acquire(Sent<op::Ask, AcquireReply>),
    Replace(Sent<op::Replace, AcquireReply>),
    Release(Sent<op::Release, ReleaseReply>),
    /// A renewal that a caller asked for.
    Renew(Sent<op::Renew, RenewReply>),
    /// Renewals by timer. The store executes each of them separately.
    RenewAll(Vec<Sent<op::Renew, RenewReply>>),
    /// Acquisitions that are executed as one command.
    AcquireAll(Vec<Sent<op::Acquire, BatchReply>>),
}

impl Outgoing {
    pub(in super::super) fn fail(self, kind: Failure) {
        let places: Vec<Place> = match self {
            Outgoing::Acquire(sent) => vec![Place::Acquire(sent.slot)],
            Outgoing::Replace(sent) => vec![Place::Acquire(sent.slot)],
            Outgoing::Release(sent) => vec![Place::Release(sent.slot)],
            Outgoing::Renew(sent) => vec![Place::Renew(sent.slot)],
            Outgoing::RenewAll(all) => all.into_iter().map(|sent| Place::Renew(sent.slot)).collect(),
            Outgoing::AcquireAll(all) => {
                all.into_iter().map(|sent| Place::AcquireInBatch(sent.slot)).collect()
            }
        };
        places.iter().for_each(|place| place.fail(kind));
    }
}

#[derive(Debug, Default)]
struct Shelf {
    outgoing: Vec<Outgoing>,
    /// Commands whose futures were dropped before they were answered.
    dropped: u32,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct SimulatedStore {
    up: Arc<AtomicBool>,
    shelf: Arc<Locked<Shelf>>,
}

impl SimulatedStore {
    pub(in super::super) fn comes_up(&self) {
        self.up.store(true, Ordering::Relaxed);
    }

    pub(in super::super) fn goes_down(&self) {
        self.up.store(false, Ordering::Relaxed);
    }

    pub(in super::super) fn take_outgoing(&self) -> Vec<Outgoing> {
        take(&mut self.shelf.lock().outgoing)
    }

    pub(in super::super) fn take_dropped(&self) -> u32 {
        take(&mut self.shelf.lock().dropped)
    }

    fn send<O, R: Send + 'static>(
        &self,
        key: &Arc<str>,
        op: O,
        outgoing: impl FnOnce(Sent<O, R>) -> Outgoing,
    ) -> Sending<R> {
        if !self.up.load(Ordering::Relaxed) {
            return Sending::Ready(Err(failure(Failure::NotSent)));
        }
        let slot = Slot::new();
        let unsent = Some(outgoing(Sent { key: key.clone(), op, slot: slot.clone() }));
        let answers = Answers { store: self.clone(), unsent, slots: vec![slot] };
        Sending::Pending(Box::pin(async move {
            answers.await.pop().unwrap_or_else(|| Err(failure(Failure::Unknown)))
        }))
    }

    fn send_all<O, R: Send + 'static>(
        &self,
        batch: Vec<(Arc<str>, O)>,
        outgoing: impl FnOnce(Vec<Sent<O, R>>) -> Outgoing,
    ) -> BoxFuture<Vec<OpResult<R>>> {
        let all = batch.into_iter().map(|(key, op)| Sent { key, op, slot: Slot::new() });
        let all: Vec<Sent<O, R>> = all.collect();
        let slots = all.iter().map(|sent| sent.slot.clone()).collect();
        Box::pin(Answers { store: self.clone(), unsent: Some(outgoing(all)), slots })
    }
}

/// The replies to operations that are sent together.
struct Answers<R> {
    store: SimulatedStore,
    unsent: Option<Outgoing>,
    slots: Vec<Arc<Slot<R>>>,
}

impl<R> Future for Answers<R> {
    type Output = Vec<OpResult<R>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<OpResult<R>>> {
        if let Some(outgoing) = self.unsent.take() {
            self.store.shelf.lock().outgoing.push(outgoing);
        }
        // Asks all slots, without stopping at the first: each stores the waker.
        if self.slots.iter().filter(|slot| !slot.is_filled(cx.waker())).count() > 0 {
            return Poll::Pending;
        }
        Poll::Ready(take(&mut self.slots).iter().map(|slot| slot.take()).collect())
    }
}

impl<R> Drop for Answers<R> {
    fn drop(&mut self) {
        if !self.slots.is_empty() {
            self.store.shelf.lock().dropped += 1;
        }
    }
}

impl Backend for SimulatedStore {
    fn send_acquire(&self, key: &Arc<str>, op: op::Ask) -> Sending<AcquireReply> {
        self.send(key, op, Outgoing::Acquire)
    }

    fn cannot_replace(&self) -> Option<String> {
        None
    }

    fn send_replace(&self, key: &Arc<str>, op: op::Replace) -> Sending<AcquireReply> {
        self.send(key, op, Outgoing::Replace)
    }

    fn send_release(&self, key: &Arc<str>, op: op::Release) -> Sending<ReleaseReply> {
        self.send(key, op, Outgoing::Release)
    }

    fn send_renew(&self, key: &Arc<str>, op: op::Renew) -> Sending<RenewReply> {
        self.send(key, op, Outgoing::Renew)
    }

    /// Up to two go out together, so that parts are answered separately.
    fn send_renew_all(&self, batch: Vec<(Arc<str>, op::Renew)>) -> Vec<BatchPart<RenewReply>> {
        let placed: Vec<_> = batch.into_iter().enumerate().collect();
        let part = |two: &[(usize, (Arc<str>, op::Renew))]| {
            let (places, two): (Vec<_>, Vec<_>) = two.iter().cloned().unzip();
            BatchPart { places, results: self.send_all(two, Outgoing::RenewAll) }
        };
        placed.chunks(2).map(part).collect()
    }

    fn acquires_all(&self, keys: &[Arc<str>]) -> usize {
        keys.len()
    }

    fn send_acquire_all(&self, batch: Vec<(Arc<str>, op::Acquire)>) -> BoxFuture<Vec<OpResult<BatchReply>>> {
        self.send_all(batch, Outgoing::AcquireAll)
    }

    fn inspect(&self, _: &Arc<str>) -> BoxFuture<Result<Option<StoredLock>, StoreError>> {
        Box::pin(async { Ok(None) })
    }

    fn force_release(&self, _: &Arc<str>) -> BoxFuture<Result<bool, StoreError>> {
        Box::pin(async { Ok(false) })
    }

    fn force_release_from(&self, _: &Arc<str>, _: &Arc<str>) -> BoxFuture<Result<bool, StoreError>> {
        Box::pin(async { Ok(false) })
    }

    fn run(self: Arc<Self>, _: Arc<dyn Events>) -> BoxFuture<()> {
        Box::pin(pending())
    }

    fn describe(&self) -> String {
        "a simulated store".to_owned()
    }

    fn prefix(&self) -> &str {
        ""
    }
}
