//! The store as the driver of a simulated process sees it. What is sent is laid out for the world, which puts it on
//! the wire, and puts what comes back into the command's slots.

use std::future::pending;
use std::mem::take;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::super::wire::failure;
use crate::backend::{Backend, BoxFuture, Events, Inspection, Sending};
use crate::protocol::{Failure, Op, OpError, OpResult};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the reply to one operation is put.
#[derive(Debug, Default)]
pub(in super::super) struct Slot(Mutex<(Option<OpResult>, Option<Waker>)>);

impl Slot {
    pub(in super::super) fn put(&self, result: OpResult) {
        let mut slot = lock(&self.0);
        slot.0 = Some(result);
        if let Some(waiter) = slot.1.take() {
            waiter.wake();
        }
    }

    fn is_filled(&self, waiter: &Waker) -> bool {
        let mut slot = lock(&self.0);
        if slot.0.is_none() {
            slot.1 = Some(waiter.clone());
        }
        slot.0.is_some()
    }

    fn take(&self) -> OpResult {
        lock(&self.0).0.take().unwrap_or_else(|| Err(failure(Failure::Unknown)))
    }
}

/// How operations that are sent together are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Together {
    /// Each by itself. The caller of one asked for it.
    Alone,
    /// Each by itself. Nobody asked for them but a timer.
    Batch,
    /// As one command.
    AcquireAll,
}

/// Operations that were sent, in their order.
#[derive(Debug)]
pub(in super::super) struct Outgoing {
    pub(in super::super) together: Together,
    pub(in super::super) ops: Vec<(Arc<str>, Op)>,
    pub(in super::super) slots: Vec<Arc<Slot>>,
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
    shelf: Arc<Mutex<Shelf>>,
}

impl SimulatedStore {
    pub(in super::super) fn set_up(&self, up: bool) {
        self.up.store(up, Ordering::Relaxed);
    }

    pub(in super::super) fn take_outgoing(&self) -> Vec<Outgoing> {
        take(&mut lock(&self.shelf).outgoing)
    }

    pub(in super::super) fn take_dropped(&self) -> u32 {
        take(&mut lock(&self.shelf).dropped)
    }

    fn answers(&self, together: Together, ops: Vec<(Arc<str>, Op)>) -> Answers {
        let slots: Vec<Arc<Slot>> = ops.iter().map(|_| Arc::default()).collect();
        let unsent = Some(Outgoing { together, ops, slots: slots.clone() });
        Answers { store: self.clone(), unsent, slots }
    }
}

/// The replies to operations that are sent together.
struct Answers {
    store: SimulatedStore,
    unsent: Option<Outgoing>,
    slots: Vec<Arc<Slot>>,
}

impl Future for Answers {
    type Output = Vec<OpResult>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Vec<OpResult>> {
        if let Some(outgoing) = self.unsent.take() {
            lock(&self.store.shelf).outgoing.push(outgoing);
        }
        // All of them: each remembers who waits.
        if self.slots.iter().filter(|slot| !slot.is_filled(cx.waker())).count() > 0 {
            return Poll::Pending;
        }
        Poll::Ready(take(&mut self.slots).iter().map(|slot| slot.take()).collect())
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        if !self.slots.is_empty() {
            lock(&self.store.shelf).dropped += 1;
        }
    }
}

impl Backend for SimulatedStore {
    fn send(&self, key: &Arc<str>, op: Op) -> Sending {
        if !self.up.load(Ordering::Relaxed) {
            return Sending::Ready(Err(failure(Failure::NotSent)));
        }
        let answers = self.answers(Together::Alone, vec![(key.clone(), op)]);
        Sending::Pending(Box::pin(async move {
            answers.await.pop().unwrap_or_else(|| Err(failure(Failure::Unknown)))
        }))
    }

    fn send_batch(&self, batch: Vec<(Arc<str>, Op)>) -> BoxFuture<Vec<OpResult>> {
        Box::pin(self.answers(Together::Batch, batch))
    }

    fn acquires_all(&self, keys: &[Arc<str>]) -> usize {
        keys.len()
    }

    fn send_acquire_all(&self, batch: Vec<(Arc<str>, Op)>) -> BoxFuture<Vec<OpResult>> {
        Box::pin(self.answers(Together::AcquireAll, batch))
    }

    fn inspect(&self, _: &Arc<str>) -> BoxFuture<Result<Option<Inspection>, OpError>> {
        Box::pin(async { Ok(None) })
    }

    fn force_release(&self, _: &Arc<str>) -> BoxFuture<Result<bool, OpError>> {
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
