//! The contract between the driver and the stores. Its vocabulary is defined in [`crate::protocol`].

pub(crate) mod adapter;
pub(crate) mod fail_all;
pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod quorum;
#[cfg(feature = "redis")]
pub(crate) mod redis;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::error::LockError;
use crate::key::LockKey;
use distlock_store::{Finding, Severity};

pub(crate) use crate::protocol::*;

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// An operation in progress. The first poll of `Pending` fixes its place in the order of execution. The future needs no
/// particular executor, and is never dropped before it is ready: a caller that stops waiting hands it to the I/O
/// thread. It always becomes ready. If the link is dropped, it fails with [`Failure::Unknown`].
pub(crate) enum Sending<T> {
    Ready(OpResult<T>),
    Pending(BoxFuture<OpResult<T>>),
}

impl<T: fmt::Debug> fmt::Debug for Sending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sending::Ready(result) => f.debug_tuple("Ready").field(result).finish(),
            Sending::Pending(_) => f.write_str("Pending"),
        }
    }
}

/// Receives the reports of the backend. It is called on the I/O thread, or (memory) on the thread whose operation
/// caused the report, and never while a mutex of the backend is held.
pub(crate) trait Events: Send + Sync {
    fn link(&self, event: LinkEvent);
    fn push(&self, push: Push);

    fn notice(&self, _notice: PushHint) {}

    /// The record of this process, for operators. `None`: no record is written.
    fn who(&self) -> Option<Who> {
        None
    }

    /// The session has ended (see [`LeaseEnds::WithSession`], which reports it already): every lock is lost.
    fn session_lost(&self) {}
}

/// When a store is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectOn {
    Start,
    FirstUse,
}

/// How one learns what other clients hold and wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    /// There are no other clients.
    None,
    /// The store knows: [`Backend::list`].
    Listed,
    /// The store cannot list locks, so other clients' locks are unknown.
    Unknown,
}

/// The record of a lease, for operators: the key, the lease, and how long it lives.
#[derive(Clone, Debug)]
pub(crate) struct HoldNote {
    pub(crate) key: Arc<str>,
    pub(crate) hold: HoldAccount,
    pub(crate) ttl: Duration,
    /// The text that the holder publishes.
    pub(crate) value: Option<Arc<str>>,
}

impl HoldNote {
    /// A note for a lease that this client no longer has. It ends immediately.
    pub(crate) fn that_ends(key: &Arc<str>, token: Token) -> Self {
        let (since, left) = (Duration::ZERO, Duration::ZERO);
        let (kind, users, label) = (LockKind::Exclusive, 0, String::new());
        let hold = HoldAccount { token, kind, users, label, since, left };
        HoldNote { key: key.clone(), hold, ttl: Duration::from_millis(1), value: None }
    }
}

/// The abilities of a backend that a request needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub(crate) kind: LockKind,
    pub(crate) ttl: Duration,
    pub(crate) fenced: bool,
    pub(crate) min_hold: Option<Duration>,
}

impl Demand {
    /// Of a lock without a fencing token and without `min_hold`.
    pub(crate) fn plain(kind: LockKind, ttl: Duration) -> Demand {
        Demand { kind, ttl, fenced: false, min_hold: None }
    }
}

/// A part of a batch that is sent and answered together.
pub(crate) struct BatchPart<T> {
    /// The places of its operations in the batch.
    pub(crate) places: Vec<usize>,
    /// One result for each of them, in the same order.
    pub(crate) results: BoxFuture<Vec<OpResult<T>>>,
}

impl<T> BatchPart<T> {
    /// The whole batch is one part.
    pub(crate) fn all(count: usize, results: BoxFuture<Vec<OpResult<T>>>) -> Vec<Self> {
        vec![BatchPart { places: (0..count).collect(), results }]
    }
}

/// A store of locks.
pub(crate) trait Backend: fmt::Debug + Send + Sync + 'static {
    /// Starts a request for a lock. Like every other operation, it must be cheap, because it is called on the caller's
    /// thread. If there is no link, the reply is `Ready(Err(NotSent))` immediately, and an idle backend starts to
    /// connect.
    fn send_acquire(&self, key: &Arc<str>, op: op::Ask) -> Sending<AcquireReply>;

    /// The reason why it cannot execute [`Backend::send_replace`]. `None`: it can.
    fn cannot_replace(&self) -> Option<String> {
        Some(format!("{} does not hand a lock over to another process", self.describe()))
    }

    /// Starts to take a lock over from the holder that the operation names.
    fn send_replace(&self, _key: &Arc<str>, _op: op::Replace) -> Sending<AcquireReply> {
        Sending::Ready(Err(StoreError::new(Failure::Refused, "it does not hand locks over")))
    }

    /// Starts a release.
    fn send_release(&self, key: &Arc<str>, op: op::Release) -> Sending<ReleaseReply>;

    /// Starts a renewal.
    fn send_renew(&self, key: &Arc<str>, op: op::Renew) -> Sending<RenewReply>;

    /// Sends many renewals, with as few commands as possible. The result of each command arrives on its own: a server
    /// that hangs must not delay the renewals that others have confirmed.
    fn send_renew_all(&self, batch: Vec<(Arc<str>, op::Renew)>) -> Vec<BatchPart<RenewReply>>;

    /// How many of these keys, from the first on, [`Backend::send_acquire_all`] can put into one command: at
    /// least one. One means that they are acquired one by one.
    fn acquires_all(&self, keys: &[Arc<str>]) -> usize {
        keys.len().min(1)
    }

    /// Executes operations with [`AcquireMode::Try`], unfenced, as one command: in order, up to and including the first
    /// that does not get its lock. The later ones are [`BatchReply::Skipped`]. Returns one result for each. The rules
    /// of [`Backend::send_acquire`] apply to the whole command; one that was [`Failure::Refused`] may have been applied
    /// in part. Called only with as many keys as [`Backend::acquires_all`] allows.
    fn send_acquire_all(&self, batch: Vec<(Arc<str>, op::Acquire)>) -> BoxFuture<Vec<OpResult<BatchReply>>> {
        Box::pin(std::future::ready(batch.iter().map(|_| Ok(BatchReply::Skipped)).collect()))
    }

    /// Reads the holders of `key`. `None`: it is free. A key of another type is `Refused`.
    fn inspect(&self, key: &Arc<str>) -> BoxFuture<Result<Option<StoredLock>, StoreError>>;

    fn others(&self) -> Others {
        Others::None
    }

    /// Some of the locks whose keys begin with `beginning`, from behind `after` on.
    fn list(&self, _beginning: &str, _after: Option<Arc<str>>) -> BoxFuture<Result<ListPage, StoreError>> {
        Box::pin(std::future::ready(Ok(ListPage::default())))
    }

    /// Reads who holds these keys, in their order. A key that is free, or that holds something else, is left out.
    fn inspect_all(&self, _keys: Vec<Arc<str>>) -> BoxFuture<Result<StoredLocks, StoreError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Writes notes on leases that are being renewed, for operators. `None`: the backend has no notes, and the notes
    /// were not taken. A lost note is written again with the next renewal.
    fn note_holds(&self, _notes: &mut dyn Iterator<Item = HoldNote>) -> Option<BoxFuture<()>> {
        None
    }

    /// Whether it keeps what a holder [publishes](Backend::publish).
    fn publishes(&self) -> bool {
        false
    }

    /// Keeps the value that a holder publishes with its exclusive lock. Where it is part of the
    /// [notes](Backend::note_holds), each renewal writes it again.
    fn publish(&self, note: HoldNote) -> BoxFuture<Result<(), StoreError>> {
        if !self.publishes() {
            let refusal = StoreError::new(Failure::Refused, "it keeps no values");
            return Box::pin(std::future::ready(Err(refusal)));
        }
        // One that is lost comes with the next renewal.
        finished(self.note_holds(&mut std::iter::once(note)))
    }

    /// Removes what this client has published with a lease, whether or not it still holds it. The note is that of the
    /// lease, without a value.
    fn unpublish(&self, note: HoldNote) -> BoxFuture<Result<(), StoreError>> {
        finished(self.note_holds(&mut std::iter::once(note)))
    }

    /// Examines the store for risks and causes of slowness. A backend that cannot examine its store returns a finding
    /// that says so, because an empty result would look like a store without risks.
    fn diagnose(&self) -> BoxFuture<Result<Vec<Finding>, StoreError>> {
        Box::pin(std::future::ready(Ok(vec![not_examined()])))
    }

    /// Deletes the lock whichever token holds it, and hands on to the queue. Returns whether there was a
    /// lock.
    fn force_release(&self, key: &Arc<str>) -> BoxFuture<Result<bool, StoreError>>;

    /// The same if `owner`, any text, is its holder or one of its holders: by one operation, so that no other holder's
    /// lease is ended. Returns whether it was.
    fn force_release_from(&self, key: &Arc<str>, owner: &Arc<str>) -> BoxFuture<Result<bool, StoreError>>;

    /// Why the store refuses locks although it is connected, as far as is known.
    fn refusal(&self) -> Option<StoreError> {
        None
    }

    /// Whether [`Backend::run`] needs a runtime with I/O.
    fn uses_sockets(&self) -> bool {
        true
    }

    /// Keeps the link alive without end, and reports to `events`. Polled on the I/O thread within a tokio runtime (time
    /// enabled, and I/O if [`Backend::uses_sockets`]); dropped when the manager ends. After a panic, it is called
    /// again. Commands on the links of the first call may still be applied then. If it returns, the manager can no
    /// longer do anything.
    fn run(self: Arc<Self>, events: Arc<dyn Events>) -> BoxFuture<()>;

    /// The manager ends: called at most once, when no lock is held. If a release has had no reply for a second, it may
    /// still be in progress. Polled as [`Backend::run`] is, which continues meanwhile.
    fn close(self: Arc<Self>) -> BoxFuture<()> {
        Box::pin(std::future::ready(()))
    }

    /// Refuses a request that it cannot serve, with the reason.
    fn check(&self, _demand: &Demand) -> Result<(), LockError> {
        Ok(())
    }

    /// Refuses that a process keeps a lock between its sections, with the reason.
    fn keeps_between_sections(&self) -> Result<(), LockError> {
        Ok(())
    }

    /// Refuses a key that it cannot keep, with the reason.
    fn check_key(&self, _key: &LockKey) -> Result<(), LockError> {
        Ok(())
    }

    /// The kind and the location of the store for messages, without credentials.
    fn describe(&self) -> String;

    /// The prefix of every key on the server.
    fn prefix(&self) -> &str;
}

/// Success, once this has been written.
fn finished(writing: Option<BoxFuture<()>>) -> BoxFuture<Result<(), StoreError>> {
    Box::pin(async move {
        if let Some(writing) = writing {
            writing.await;
        }
        Ok(())
    })
}

/// The finding of a store that cannot be examined.
fn not_examined() -> Finding {
    Finding::new(Severity::Note, "settings", "not examined on this store")
        .remedy("compare them with the page about this store in the book")
}
