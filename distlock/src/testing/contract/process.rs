//! The store of one process, and its reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

use super::Broken;
use crate::backend::Failure;
use crate::testing::BOUND;
use crate::testing::any_store::AnyStore;
use distlock_store::engine::{Report, Time};
use distlock_store::kit::sync::Locked;
use distlock_store::{
    Abilities, Acquire, AcquireReply, LeaseRule, LockStore, Owner, Release, ReleaseReply, Renew, RenewReply,
    Replace, ReplaceReply, StoreError, StoreEvents, StoredLock,
};

/// Between two looks at something that is awaited.
pub(super) const PAUSE: Duration = Duration::from_millis(2);

/// One process with its own store. Ends when dropped, without a message to the server.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) store: Arc<AnyStore>,
    pub(super) abilities: Abilities,
    client: String,
    owners: AtomicU64,
    heard: Arc<Locked<Heard>>,
    tasks: [AbortHandle; 2],
    _wanted: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Heard {
    is_up: bool,
    /// Checks that the session is alive, if the store must have one.
    has_session: bool,
    /// Why it is not up.
    cause: Option<StoreError>,
    hints: Vec<Hint>,
}

/// A report of the store about a key, without a question.
#[derive(Clone, Debug)]
enum Hint {
    Released { key: String },
    Granted { key: String, owner: String, fence: Option<u64>, made: Option<Time> },
}

/// How a waiter learns that it may have the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It is free.
    Free,
    /// It is the waiter's.
    Granted { fence: Option<u64>, made: Option<Time> },
}

impl Process {
    /// Runs the store, and waits until it can be asked.
    pub(super) async fn start(store: AnyStore) -> Result<Self, Broken> {
        static PROCESSES: AtomicU64 = AtomicU64::new(1);
        let client = format!("contract.{}", PROCESSES.fetch_add(1, Ordering::Relaxed));
        let (store, heard) = (Arc::new(store), Arc::new(Locked::new(Heard::default())));
        let (sender, mut reports) = mpsc::unbounded_channel();
        let (wanted, is_wanted) = watch::channel(true);
        let hints = Arc::new(AtomicUsize::new(0));
        let events = StoreEvents::new(client.as_str().into(), sender, hints.clone(), is_wanted);
        let (running, hearing) = (store.clone(), heard.clone());
        let run = tokio::spawn(async move { running.run(events).await });
        let hear = tokio::spawn(async move {
            while let Some(report) = reports.recv().await {
                hearing.lock().note(report, &hints);
            }
        });
        let tasks = [run.abort_handle(), hear.abort_handle()];
        let (abilities, owners) = (store.abilities(), AtomicU64::new(1));
        let process = Process { store, abilities, client, owners, heard, tasks, _wanted: wanted };
        process.is_ready().await?;
        Ok(process)
    }

    /// Waits until the store can be asked.
    async fn is_ready(&self) -> Result<(), Broken> {
        let needs_session = self.abilities.lease == LeaseRule::Session;
        let is_ready = async || {
            let heard = self.heard.lock();
            heard.is_up && (heard.has_session || !needs_session)
        };
        let ready = until("the store reports that it is up, with a session if it has them", is_ready).await;
        ready.map_err(|broken| match &self.heard.lock().cause {
            Some(cause) => broken.and(&format!("{cause}")),
            None => broken,
        })
    }

    /// Whether the store's own work has ended.
    pub(super) fn run_has_returned(&self) -> bool {
        self.tasks[0].is_finished()
    }

    /// A new one of this process.
    pub(super) fn owner(&self) -> Owner {
        Owner::new(&self.client, self.owners.fetch_add(1, Ordering::Relaxed))
    }

    /// Asks, and again if the store refuses for now.
    pub(super) async fn acquire(&self, request: &Acquire) -> Result<AcquireReply, Broken> {
        let reply = self.asked(async || self.store.acquire(request).await).await?;
        match &reply {
            AcquireReply::Busy(busy) if busy.holder.as_deref() == Some(request.owner.as_str()) => {
                Err(Broken::because(format!(
                    "{} acquires, and the store says that it blocks itself",
                    request.owner
                )))
            }
            _ => Ok(reply),
        }
    }

    /// Acquires a lock that is free.
    pub(super) async fn takes(&self, request: &Acquire) -> Result<Option<u64>, Broken> {
        match self.acquire(request).await? {
            AcquireReply::Acquired { fence } => Ok(fence),
            other => {
                Err(Broken::because(format!("`{}` is free, and an acquire says {other:?}", request.key)))
            }
        }
    }

    /// Requests a lock that is held. Returns its holder, if the store names it.
    pub(super) async fn meets(&self, request: &Acquire) -> Result<Option<String>, Broken> {
        match self.acquire(request).await? {
            AcquireReply::Busy(busy) => Ok(busy.holder),
            other => Err(Broken::because(format!(
                "`{}` is held, and an acquire by another owner says {other:?}",
                request.key
            ))),
        }
    }

    pub(super) async fn renew(&self, request: &Renew) -> Result<RenewReply, Broken> {
        self.asked(async || self.store.renew(request).await).await
    }

    pub(super) async fn replace(&self, request: &Replace) -> Result<ReplaceReply, Broken> {
        self.asked(async || self.store.replace(request).await).await
    }

    pub(super) async fn release(&self, request: &Release) -> Result<ReleaseReply, Broken> {
        self.asked(async || self.store.release(request).await).await
    }

    /// Releases a lock of the owner.
    pub(super) async fn gives_back(&self, key: &Arc<str>, owner: &Owner) -> Result<(), Broken> {
        match self.release(&Release::new(key.clone(), owner)).await? {
            ReleaseReply::Released => Ok(()),
            ReleaseReply::NotHeld => {
                Err(Broken::because(format!("{owner} has `{key}`, and its release says NotHeld")))
            }
        }
    }

    pub(super) async fn inspect(&self, key: &str) -> Result<Option<StoredLock>, Broken> {
        self.asked(async || self.store.inspect(key).await).await
    }

    /// The holders of the key.
    pub(super) async fn holders(&self, key: &str) -> Result<Vec<String>, Broken> {
        let found = self.inspect(key).await?;
        let holders = found.into_iter().flat_map(|lock| lock.holders);
        Ok(holders.map(|(holder, _)| holder).collect())
    }

    pub(super) async fn is_held_by(&self, key: &str, owner: &Owner) -> Result<bool, Broken> {
        Ok(self.holders(key).await?.iter().any(|holder| holder == owner.as_str()))
    }

    /// How long the lease of this holder lasts, if the store says it.
    pub(super) async fn remaining(&self, key: &str, owner: &Owner) -> Result<Option<Duration>, Broken> {
        let holders = self.inspect(key).await?.map(|lock| lock.holders).unwrap_or_default();
        match holders.into_iter().find(|(holder, _)| holder == owner.as_str()) {
            Some((_, remaining)) => Ok(remaining),
            None => Err(Broken::because(format!("{owner} holds `{key}`, and inspect does not show it"))),
        }
    }

    pub(super) async fn force_release(&self, key: &str) -> Result<bool, Broken> {
        self.asked(async || self.store.force_release(key).await).await
    }

    /// An error that says that nothing was done is followed by another attempt, as the manager does it.
    pub(super) async fn asked<T>(&self, ask: impl AsyncFn() -> Result<T, StoreError>) -> Result<T, Broken> {
        let end = Instant::now() + BOUND;
        loop {
            match ask().await {
                Ok(reply) => return Ok(reply),
                Err(error) if error.kind == Failure::Later && Instant::now() < end => {}
                Err(error) => return Err(Broken::because(format!("the store answers an error: {error}"))),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The reports so far about the key, or about the owner that waits for it.
    pub(super) fn told(&self, of: &str, waiter: &Owner) -> Option<Told> {
        let heard = self.heard.lock();
        heard.hints.iter().find_map(|hint| match hint {
            Hint::Granted { key, owner, fence, made } if key == of && owner == waiter.as_str() => {
                Some(Told::Granted { fence: *fence, made: *made })
            }
            Hint::Released { key } if key == of => Some(Told::Free),
            Hint::Granted { .. } | Hint::Released { .. } => None,
        })
    }

    /// Waits until the owner learns that it may have the key.
    pub(super) async fn is_told(&self, key: &str, waiter: &Owner) -> Result<Told, Broken> {
        let is_told = async || self.told(key, waiter).is_some();
        until(&format!("{waiter}, which waits for `{key}`, learns that it was released"), is_told).await?;
        self.told(key, waiter).ok_or_else(|| Broken::because("the report was discarded".to_owned()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Heard {
    fn note(&mut self, report: Report, hints: &AtomicUsize) {
        match report {
            Report::Up(_) => self.is_up = true,
            Report::Down(cause) => (self.is_up, self.cause) = (false, Some(cause)),
            Report::HeartbeatAnswered { .. } => self.has_session = true,
            Report::SessionLost { .. } => self.has_session = false,
            Report::Notifications(_) => {}
            Report::Released { key } => self.hint(Hint::Released { key }, hints),
            Report::Granted { key, owner, fence, made } => {
                self.hint(Hint::Granted { key, owner, fence, made }, hints);
            }
        }
    }

    fn hint(&mut self, hint: Hint, hints: &AtomicUsize) {
        hints.fetch_sub(1, Ordering::Relaxed);
        self.hints.push(hint);
    }
}

/// Waits for a change that the store must make.
///
/// # Errors
///
/// It has not, within [`BOUND`].
pub(super) async fn until(what: &str, condition: impl AsyncFn() -> bool) -> Result<(), Broken> {
    let end = Instant::now() + BOUND;
    while !condition().await {
        if Instant::now() > end {
            return Err(Broken::because(format!("not within {BOUND:?}: {what}")));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
