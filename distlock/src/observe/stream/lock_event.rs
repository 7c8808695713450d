//! The events that a program reads from the stream.

use std::time::Duration;

use crate::deadlock::Deadlock;
use crate::error::{LockError, LostReason};
use distlock_store::LockKind;

/// An event of a manager: see [`LockManager::events`](crate::LockManager::events).
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
    /// A wait has begun: another process holds the key, or another request of this process holds it or waits for it
    /// already. (Requests of one process that wait for another process share one place in the queue, and one event.)
    #[non_exhaustive]
    Queued {
        /// The label of the request. If several requests share a place, the label of the first.
        label: String,
        /// The key, without the manager's prefix.
        key: String,
        /// The kind of lock that was requested.
        kind: LockKind,
    },
    /// A lock was acquired.
    #[non_exhaustive]
    Acquired {
        /// The label of the request.
        label: String,
        /// The key, without the manager's prefix.
        key: String,
        /// The kind of lock that is held.
        kind: LockKind,
        /// The time since the request began, for all of its keys together.
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
        /// The key. If there are several, the first.
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
    /// A lock was granted to a request, but the future was not polled before the lease ended. The lock was released.
    ///
    /// The request has not ended. If its future is polled again, it continues to wait if its wait is not over. See the
    /// frequent question "All tasks wait, and no task holds the lock?".
    #[non_exhaustive]
    NotTaken {
        /// The label of the request.
        label: String,
        /// The key, without the manager's prefix.
        key: String,
        /// The time since the grant.
        after: Duration,
    },
    /// The store has confirmed a renewal.
    #[non_exhaustive]
    Renewed {
        /// The label of the request.
        label: String,
        /// The key, without the manager's prefix.
        key: String,
        /// The remaining time of the old lease at that moment.
        left: Duration,
    },
    /// A lock is no longer in use.
    #[non_exhaustive]
    Released {
        /// The label of the request.
        label: String,
        /// The key, without the manager's prefix.
        key: String,
        /// From the acquisition on.
        held: Duration,
        /// Whether the release is not confirmed yet. It is then retried in the background.
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
    /// Holders wait for each other, and a request of this process is among them: see
    /// [`LockManager::deadlocks`](crate::LockManager::deadlocks). Each process with a member reports a deadlock once.
    #[non_exhaustive]
    Deadlock {
        /// The holders, each with the key that it holds and the key for which it waits.
        deadlock: Deadlock,
    },
    /// The store is connected.
    #[non_exhaustive]
    Connected {
        /// The store and its address, without credentials.
        store: String,
        /// The length of the outage, if there was one.
        outage: Option<Duration>,
    },
    /// The store has disconnected, or the first attempt to connect has failed. Reported once for each outage.
    #[non_exhaustive]
    Disconnected {
        /// The store and its address, without credentials.
        store: String,
        /// Why.
        cause: String,
    },
    /// The store has begun or stopped to push hand-offs. While it does not push them, waiters poll.
    #[non_exhaustive]
    Pushes {
        /// The store and its address, without credentials.
        store: String,
        /// Whether the store pushes hand-offs now.
        on: bool,
    },
    /// The manager has failed: every lock is lost.
    #[non_exhaustive]
    Failed {
        /// Why.
        defect: String,
    },
    /// This reader was too slow, and has missed events.
    #[non_exhaustive]
    Missed {
        /// The number of missed events.
        count: u64,
    },
}
