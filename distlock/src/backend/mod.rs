//! The contract between the driver and whatever keeps the locks. The words that they use are those of
//! [`crate::protocol`].

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

pub(crate) use crate::protocol::LATE_COMMANDS_BOUND as TCP_USER_TIMEOUT;
pub(crate) use crate::protocol::*;

pub(crate) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// An operation under way. Its place in the order of execution is fixed at the first poll of `Pending`.
/// The future needs no particular executor, and is never dropped before it is ready: whoever does not want
/// to wait hands it to the I/O thread. It always becomes ready: when the link is given up it fails with
/// [`Failure::Unknown`].
pub(crate) enum Sending {
    Ready(OpResult),
    Pending(BoxFuture<OpResult>),
}

impl fmt::Debug for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sending::Ready(result) => f.debug_tuple("Ready").field(result).finish(),
            Sending::Pending(_) => f.write_str("Pending"),
        }
    }
}

/// Receives what the backend reports. Called on the I/O thread, or (memory) on the thread whose operation
/// caused it; never while a lock of the backend is held.
pub(crate) trait Events: Send + Sync {
    fn link(&self, event: LinkEvent);
    fn push(&self, push: Push);

    fn notice(&self, _notice: Notice) {}

    /// The session is over (see [`LeaseEnds::WithSession`], which says so already): every lock is lost.
    fn session_lost(&self) {}
}

/// What a request asks of a backend, apart from the lock being free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub(crate) kind: Kind,
    pub(crate) ttl: Duration,
    pub(crate) fenced: bool,
    pub(crate) min_hold: Option<Duration>,
}

/// Something that keeps locks.
pub(crate) trait Backend: fmt::Debug + Send + Sync + 'static {
    /// Starts one operation. Must be cheap: it is called on the caller's thread. If there is no link the
    /// answer is `Ready(Err(NotSent))` at once, and an idle backend begins to connect.
    fn send(&self, key: &Arc<str>, op: Op) -> Sending;

    /// Carries out many operations in one round trip where it can; one result for each, in order.
    fn send_batch(&self, batch: Vec<(Arc<str>, Op)>) -> BoxFuture<Vec<OpResult>>;

    /// How many of these keys, from the first on, [`Backend::send_acquire_all`] can put into one command: at least
    /// one. One means that they are acquired one by one.
    fn acquires_all(&self, keys: &[Arc<str>]) -> usize {
        keys.len().min(1)
    }

    /// Carries out operations `Acquire` with [`AcquireMode::Try`], unfenced, as one command: in order, up to and
    /// including the first that does not get its lock. Those behind it are [`Reply::Skipped`]. One result
    /// for each. Whatever else is said of [`Backend::send`] holds for the whole; what was [`Failure::Refused`] may
    /// have been carried out in part. Called only for as many keys as [`Backend::together`] allows.
    fn send_acquire_all(&self, batch: Vec<(Arc<str>, Op)>) -> BoxFuture<Vec<OpResult>> {
        Box::pin(std::future::ready(batch.iter().map(|_| Ok(Reply::Skipped)).collect()))
    }

    /// Reads who holds `key`. `None`: it is free. A key of another type is `Refused`.
    fn inspect(&self, key: &Arc<str>) -> BoxFuture<Result<Option<Inspection>, OpError>>;

    /// Deletes the lock whoever holds it, and hands on to the queue. Returns whether there was one.
    fn force_release(&self, key: &Arc<str>) -> BoxFuture<Result<bool, OpError>>;

    /// Whether [`Backend::run`] needs a runtime with I/O.
    fn uses_sockets(&self) -> bool {
        true
    }

    /// Keeps the link alive, for ever, reporting to `events`. Polled on the I/O thread within a tokio
    /// runtime (time enabled, and I/O where [`Backend::uses_sockets`]); dropped when the manager ends. After a
    /// panic it is called again: what the links of the first call have sent may still be applied then. If it
    /// returns, the manager is of no use any more.
    fn run(self: Arc<Self>, events: Arc<dyn Events>) -> BoxFuture<()>;

    /// Why it cannot keep locks of this kind, if it cannot.
    fn refuses(&self, _kind: Kind) -> Option<&'static str> {
        None
    }

    /// Refuses what it cannot do, with the reason.
    fn check(&self, _demand: &Demand) -> Result<(), LockError> {
        Ok(())
    }

    /// Refuses a key that it cannot keep, with the reason.
    fn check_key(&self, _key: &LockKey) -> Result<(), LockError> {
        Ok(())
    }

    /// For messages: what this is and where, without credentials.
    fn describe(&self) -> String;

    /// What stands in front of every key on the server.
    fn prefix(&self) -> &str;
}
