//! What happens in a manager, for the program itself: a bounded stream.

use std::fmt;
use std::time::Duration;

use once_cell::sync::OnceCell;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};

use super::{Event, Observer, ReleaseOutcome};
use crate::error::{LockError, LostReason};
use crate::lock_kind::LockKind;
use crate::outage::{LinkChange, LinkStart, OutageIs};
use crate::protocol::Pushes;

/// So many events are kept for one who is slow.
const KEPT: usize = 1024;

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

impl LockEvent {
    /// `None`: nothing for a program.
    fn of(event: &Event<'_>) -> Option<LockEvent> {
        Some(match *event {
            Event::Requested { .. } => return None,
            #[cfg(feature = "redis")]
            Event::Notice { .. } => return None,
            Event::Queued { label, key, kind, .. } => {
                LockEvent::Queued { label: label.to_owned(), key: key.to_owned(), kind: kind.into() }
            }
            Event::Acquired { lock, waited, .. } => LockEvent::Acquired {
                label: lock.label.to_owned(),
                key: lock.key.to_owned(),
                kind: lock.kind.into(),
                waited,
            },
            Event::NotAcquired { label, error, waited, .. } => {
                LockEvent::NotAcquired { label: label.to_owned(), error: error.clone(), waited }
            }
            Event::Abandoned { label, waited, .. } => {
                LockEvent::Abandoned { label: label.to_owned(), waited }
            }
            Event::LongWait { label, key, waited } => {
                LockEvent::LongWait { label: label.to_owned(), key: key.to_owned(), waited }
            }
            Event::LongHold { lock, held } => {
                LockEvent::LongHold { label: lock.label.to_owned(), key: lock.key.to_owned(), held }
            }
            Event::Renewed { lock, left, .. } => {
                LockEvent::Renewed { label: lock.label.to_owned(), key: lock.key.to_owned(), left }
            }
            Event::Released { lock, held, outcome } => LockEvent::Released {
                label: lock.label.to_owned(),
                key: lock.key.to_owned(),
                held,
                pending: matches!(outcome, ReleaseOutcome::Unconfirmed(_) | ReleaseOutcome::Dropped),
            },
            Event::Lost { lock, reason, held } => {
                LockEvent::Lost { label: lock.label.to_owned(), key: lock.key.to_owned(), reason, held }
            }
            Event::Link { store, change } => return of_link(store, change),
            Event::Failed { defect } => LockEvent::Failed { defect: defect.to_owned() },
        })
    }
}

fn of_link(store: &str, change: LinkChange<'_>) -> Option<LockEvent> {
    let store = store.to_owned();
    Some(match change {
        LinkChange::Up { start, .. } => {
            let outage = match start {
                LinkStart::Again(outage) | LinkStart::AtLast(outage) => Some(outage),
                LinkStart::AtOnce => None,
            };
            LockEvent::Connected { store, outage }
        }
        LinkChange::Down { outage: OutageIs::New, cause } => {
            LockEvent::Disconnected { store, cause: cause.to_string() }
        }
        LinkChange::Down { outage: OutageIs::Known, .. } => return None,
        LinkChange::Pushes(pushes) => LockEvent::Pushes { store, on: pushes == Pushes::On },
    })
}

/// The readers of one manager. Until there is the first one, an event costs one comparison.
#[derive(Debug, Default)]
pub(super) struct Readers(OnceCell<Sender<LockEvent>>);

impl Readers {
    pub(super) fn subscribe(&self) -> Events {
        Events(self.0.get_or_init(|| Sender::new(KEPT)).subscribe())
    }

    /// There has never been one.
    pub(super) fn is_unused(&self) -> bool {
        self.0.get().is_none()
    }
}

impl Observer for Readers {
    fn event(&self, event: &Event<'_>) {
        let Some(sender) = self.0.get().filter(|sender| sender.receiver_count() > 0) else { return };
        if let Some(event) = LockEvent::of(event) {
            // Fails only if the last reader has just gone.
            drop(sender.send(event));
        }
    }
}

/// What happens in a manager from now on; see [`LockManager::events`](crate::LockManager::events).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), distlock::LockError> {
/// # let manager = distlock::LockManager::in_memory();
/// let mut events = manager.events();
/// manager.lock("order:42").run(async |_held| {}).await?;
/// println!("{:?}", events.next().await);
/// # Ok(()) }
/// ```
pub struct Events(Receiver<LockEvent>);

impl Events {
    /// The next event. A reader that is more than 1024 events behind loses the oldest ones, and is told how many.
    /// `None`: the manager has ended.
    ///
    /// # Cancel safety
    /// Cancel-safe: no event is lost.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), distlock::LockError> {
    /// # let manager = distlock::LockManager::in_memory();
    /// use distlock::LockEvent;
    ///
    /// let mut events = manager.events();
    /// let _guard = manager.lock("order:42").acquire().await?;
    /// loop {
    ///     match events.next().await.expect("the manager lives") {
    ///         LockEvent::Acquired { key, .. } => break assert_eq!(key, "order:42"),
    ///         other => println!("{other:?}"),
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn next(&mut self) -> Option<LockEvent> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(count)) => Some(LockEvent::Missed { count }),
            Err(RecvError::Closed) => None,
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("waiting", &self.0.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::LockManager;

    async fn next(events: &mut Events) -> LockEvent {
        events.next().await.expect("the manager lives")
    }

    #[tokio::test]
    async fn a_reader_sees_what_happens_from_its_subscription_on() {
        let manager = LockManager::in_memory();
        let before = manager.lock("before").acquire().await.unwrap();
        let mut events = manager.events();
        let guard = manager.lock("k").label("it").acquire().await.unwrap();
        manager.lock("k").label("busy").no_wait().acquire().await.unwrap_err();
        guard.release().await.unwrap();
        let LockEvent::Acquired { label, key, .. } = next(&mut events).await else { panic!("acquired") };
        assert_eq!((&*label, &*key), ("it", "k"));
        let LockEvent::NotAcquired { label, error, .. } = next(&mut events).await else { panic!("busy") };
        assert!(label == "busy" && error.is_busy());
        let LockEvent::Released { label, pending, .. } = next(&mut events).await else { panic!("released") };
        assert!(label == "it" && !pending);
        drop(before);
    }

    #[tokio::test]
    async fn a_loss_is_seen_with_its_reason() {
        let manager = LockManager::in_memory();
        let mut events = manager.events();
        let guard = manager.lock("k").ttl(Duration::from_millis(30)).no_renew().acquire().await.unwrap();
        loop {
            match next(&mut events).await {
                LockEvent::Lost { reason, .. } => break assert_eq!(reason, LostReason::Expired),
                LockEvent::Acquired { .. } | LockEvent::Connected { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        drop(guard);
    }

    #[tokio::test]
    async fn what_lasts_long_is_reported_while_it_does() {
        let short = Duration::from_millis(20);
        let manager = LockManager::in_memory();
        let mut events = manager.events();
        let guard = manager.lock("k").label("holder").warn_hold(short).acquire().await.unwrap();
        let waiting = tokio::spawn(manager.lock("k").label("waiter").warn_wait(short).acquire());
        let (mut waits, mut holds) = (0, 0);
        while waits < 2 || holds < 2 {
            match next(&mut events).await {
                LockEvent::LongWait { label, key, waited } => {
                    assert!((&*label, &*key) == ("waiter", "k") && waited >= short);
                    waits += 1;
                }
                LockEvent::LongHold { label, key, held } => {
                    assert!((&*label, &*key) == ("holder", "k") && held >= short);
                    holds += 1;
                }
                _ => {}
            }
        }
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }

    #[tokio::test]
    async fn a_slow_reader_loses_the_oldest_events_and_is_told_how_many() {
        let manager = LockManager::in_memory();
        let mut events = manager.events();
        for _ in 0..KEPT {
            manager.lock("k").acquire().await.unwrap().release().await.unwrap();
        }
        let LockEvent::Missed { count } = next(&mut events).await else { panic!("it is behind") };
        assert!(count >= KEPT as u64, "{count}");
        for _ in 0..KEPT {
            assert!(!matches!(next(&mut events).await, LockEvent::Missed { .. }));
        }
    }

    #[tokio::test]
    async fn a_stream_ends_with_its_manager_and_does_not_keep_it() {
        let manager = LockManager::in_memory();
        let mut events = manager.events();
        drop(manager);
        while events.next().await.is_some() {}
    }
}
