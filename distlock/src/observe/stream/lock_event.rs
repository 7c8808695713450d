//! The events that a program reads.

use std::time::Duration;

use crate::error::{LockError, LostReason};
use distlock_store::LockKind;

/// Something that has happened in a manager; see [`LockManager::events`](crate::LockManager::events).
///
/// Within one manager, each request ends with one of [`Acquired`](LockEvent::Acquired) (one for each of its keys),
/// [`NotAcquired`](LockEvent::NotAcquired) and [`Abandoned`](LockEvent::Abandoned), and each acquired lock with one
/// [`Released`](LockEvent::Released), after a [`Lost`](LockEvent::Lost) if it was lost.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// use distlock::LockEvent;
///
/// let mut events = manager.events();
/// manager.lock("order:42").label("order").run(async |_held| {}).await?;
/// while let Some(event) = events.next().await {
///     match event {
///         LockEvent::Released { label, held, .. } => {
///             println!("{label} was held for {held:?}");
///             break;
///         }
///         LockEvent::Lost { label, key, reason, .. } => eprintln!("{label}: {key} was lost: {reason}"),
///         _ => {}
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LockEvent {
    /// A wait has begun: another process holds the key, or another request of this one holds it or asks for it already.
    /// (Requests of a process that wait for another process share one place in its queue, and one event.)
    #[non_exhaustive]
    Queued {
        /// The label of the request; of several that share a place, of the first.
        label: String,
        /// The key, without the manager's prefix.
        key: String,
        /// What was asked for.
        kind: LockKind,
    },
    /// A lock was acquired.
    #[non_exhaustive]
    Acquired {
        /// The label of the request.
        label: String,
        /// The key, without the manager's prefix.
        key: String,
        /// What it is held as.
        kind: LockKind,
        /// From the request on, for all of its keys together.
        waited: Duration,
    },
    /// A request has ended without a lock.
    #[non_exhaustive]
    NotAcquired {
        /// The label of the request.
        label: String,
        /// Why.
        error: LockError,
        /// From the request on.
        waited: Duration,
    },
    /// The future of a request was dropped before its end.
    #[non_exhaustive]
    Abandoned {
        /// The label of the request.
        label: String,
        /// From the request on.
        waited: Duration,
    },
    /// A request has waited for longer than its `warn_wait`.
    #[non_exhaustive]
    LongWait {
        /// The label of the request.
        label: String,
        /// The key; of several, the first.
        key: String,
        /// From the request on.
        waited: Duration,
    },
    /// A lock has been in use for longer than its `warn_hold`.
    #[non_exhaustive]
    LongHold {
        /// The label of the request.
        label: String,
        /// The key, without the manager's prefix.
        key: String,
        /// From the acquisition on.
        held: Duration,
    },
    /// A lock was granted to a request whose future was not polled until the lease ended: it was given back.
    ///
    /// The request has not ended: when its future is polled again, it goes on waiting if its time allows. See the
    /// frequent question "Everybody waits, and nobody holds the lock".
    #[non_exhaustive]
    NotTaken {
        /// The label of the request.
        label: String,
        /// The key, without the manager's prefix.
        key: String,
        /// From the grant on.
        after: Duration,
    },
    /// The store has confirmed that a lease goes on.
    #[non_exhaustive]
    Renewed {
        /// The label of the request.
        label: String,
        /// The key, without the manager's prefix.
        key: String,
        /// How much of the lease was left then.
        left: Duration,
    },
    /// A lock is not in use any more.
    #[non_exhaustive]
    Released {
        /// The label of the request.
        label: String,
        /// The key, without the manager's prefix.
        key: String,
        /// From the acquisition on.
        held: Duration,
        /// Whether the release is still to be confirmed: it is repeated in the background.
        pending: bool,
    },
    /// A lock was lost while it was in use.
    #[non_exhaustive]
    Lost {
        /// The label of the request.
        label: String,
        /// The key, without the manager's prefix.
        key: String,
        /// Why.
        reason: LostReason,
        /// From the acquisition on.
        held: Duration,
    },
    /// The store is connected.
    #[non_exhaustive]
    Connected {
        /// The store and its address, without credentials.
        store: String,
        /// How long it was not, if that was noticed.
        outage: Option<Duration>,
    },
    /// The store is not connected any more, or cannot be at first. Reported once for each outage.
    #[non_exhaustive]
    Disconnected {
        /// The store and its address, without credentials.
        store: String,
        /// Why.
        cause: String,
    },
    /// Whether the store reports hand-offs by itself has changed; while it does not, waiters poll.
    #[non_exhaustive]
    Pushes {
        /// The store and its address, without credentials.
        store: String,
        /// Whether it does.
        on: bool,
    },
    /// The manager is of no use any more: every lock is lost.
    #[non_exhaustive]
    Failed {
        /// Why.
        defect: String,
    },
    /// This reader was too slow, and so many events are lost to it.
    #[non_exhaustive]
    Missed {
        /// How many.
        count: u64,
    },
}
