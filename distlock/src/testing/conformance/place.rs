//! The operations of rules on a fixture, and their shared state.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::{Fixture, Processes, Queue};
use crate::manager::{LockManager, LockManagerBuilder};
use crate::testing::{BOUND, eventually};

/// A fixture in use. The rules are compiled once, for all fixtures.
#[derive(Debug)]
#[doc(hidden)]
pub struct Place(Box<dyn Erased>);

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A [`Fixture`] of any type.
trait Erased: Send + Sync {
    fn processes(&self) -> Processes;
    fn queue(&self) -> Queue;
    fn builder(&self) -> LockManagerBuilder;
    fn prefix(&self) -> &str;
    fn manager(&self) -> BoxFuture<'_, LockManager>;
    fn residue(&self) -> BoxFuture<'_, Vec<String>>;
    fn cut(&self) -> BoxFuture<'_, ()>;
    fn mend(&self) -> BoxFuture<'_, ()>;
}

impl<F: Fixture> Erased for F {
    fn processes(&self) -> Processes {
        F::PROCESSES
    }

    fn queue(&self) -> Queue {
        F::QUEUE
    }

    fn builder(&self) -> LockManagerBuilder {
        Fixture::builder(self)
    }

    fn prefix(&self) -> &str {
        Fixture::prefix(self)
    }

    fn manager(&self) -> BoxFuture<'_, LockManager> {
        Box::pin(Fixture::manager(self))
    }

    fn residue(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(Fixture::residue(self))
    }

    fn cut(&self) -> BoxFuture<'_, ()> {
        Box::pin(Fixture::cut(self))
    }

    fn mend(&self) -> BoxFuture<'_, ()> {
        Box::pin(Fixture::mend(self))
    }
}

impl fmt::Debug for dyn Erased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fixture")
    }
}

impl Place {
    pub(super) fn new(fixture: impl Fixture) -> Self {
        Place(Box::new(fixture))
    }

    pub(super) fn processes(&self) -> Processes {
        self.0.processes()
    }

    pub(super) fn queue(&self) -> Queue {
        self.0.queue()
    }

    pub(super) fn builder(&self) -> LockManagerBuilder {
        self.0.builder()
    }

    pub(super) fn prefix(&self) -> &str {
        self.0.prefix()
    }

    pub(super) async fn manager(&self) -> LockManager {
        self.0.manager().await
    }

    pub(super) async fn cut(&self) {
        self.0.cut().await;
    }

    pub(super) async fn mend(&self) {
        self.0.mend().await;
    }

    /// All managers are the same one.
    pub(super) fn is_one_process(&self) -> bool {
        self.processes() == Processes::One
    }

    /// Waits until `key` is free and nothing is left of it.
    pub(super) async fn is_clean(&self, key: &str) {
        let manager = self.manager().await;
        eventually("the lock is free", async || manager.inspect(key).await.unwrap().is_none()).await;
        let mut left = Vec::new();
        let bound = Instant::now() + BOUND;
        // Names the rest, and does not only say that there is one.
        eventually("nothing is left", async || {
            left = self.0.residue().await;
            assert!(left.is_empty() || Instant::now() < bound, "left: {left:?}");
            left.is_empty()
        })
        .await;
    }

    /// Waits until this many requests of `waiting` wait for `key`, which is held. If the store shows its queue,
    /// `observer` must see them there. (The queue has one entry for each process.)
    pub(super) async fn until_waiting(
        &self,
        observer: &LockManager,
        waiting: &LockManager,
        key: &str,
        count: usize,
    ) {
        eventually("they wait", async || self.waiters(observer, waiting, key).await >= count).await;
    }

    /// Waits until no request waits.
    pub(super) async fn until_nobody_waits(&self, observer: &LockManager, waiting: &LockManager, key: &str) {
        eventually("no request waits", async || self.waiters(observer, waiting, key).await == 0).await;
    }

    async fn waiters(&self, observer: &LockManager, waiting: &LockManager, key: &str) -> usize {
        let who = if self.queue() == Queue::Shown { observer } else { waiting };
        let info = who.inspect(key).await.unwrap().expect("the lock is held");
        info.waiters_here.max(usize::try_from(info.waiters).unwrap_or(usize::MAX))
    }
}

/// Counts by separate reads and writes, so two holders at a time would lose updates.
#[derive(Debug, Default)]
pub(super) struct Tally {
    value: AtomicU64,
}

impl Tally {
    /// Reads, lets others run, and writes. Two calls at the same time lose an update.
    pub(super) async fn increment(&self) {
        let read = self.value.load(Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.value.store(read + 1, Ordering::SeqCst);
    }

    /// The same for threads.
    pub(super) fn increment_blocking(&self) {
        let read = self.value.load(Ordering::SeqCst);
        std::thread::yield_now();
        self.value.store(read + 1, Ordering::SeqCst);
    }

    pub(super) fn value(&self) -> u64 {
        self.value.load(Ordering::SeqCst)
    }
}
