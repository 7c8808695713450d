//! The events of a manager for the program itself: a bounded stream.

mod lock_event;
mod sent;

use std::fmt;

use once_cell::sync::OnceCell;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};

use super::{Event, Observer};
pub use lock_event::LockEvent;
use sent::Sent;

/// The number of events that are kept for a slow reader.
const MAX_EVENTS_KEPT: usize = 1024;

/// The readers of one manager. Without readers an event costs one comparison. With readers it is put into the channel,
/// without an allocation for a lock that is acquired and released.
#[derive(Debug, Default)]
pub(super) struct Readers(OnceCell<Sender<Sent>>);

impl Readers {
    pub(super) fn subscribe(&self) -> Events {
        Events(self.0.get_or_init(|| Sender::new(MAX_EVENTS_KEPT)).subscribe())
    }

    /// There has never been one.
    pub(super) fn is_unused(&self) -> bool {
        self.0.get().is_none()
    }
}

impl Observer for Readers {
    fn event(&self, event: &Event<'_>) {
        let Some(sender) = self.0.get().filter(|sender| sender.receiver_count() > 0) else { return };
        if let Some(event) = Sent::of(event) {
            // Fails only if the last reader has just gone.
            drop(sender.send(event));
        }
    }
}

/// The events of a manager from now on: see [`LockManager::events`](crate::LockManager::events).
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
pub struct Events(Receiver<Sent>);

impl Events {
    /// The next event. A reader that is more than 1024 events behind loses the oldest ones, and gets
    /// [`Missed`](LockEvent::Missed) with their number. `None`: the manager has ended.
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
            Ok(event) => Some(event.into()),
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
    use std::time::Duration;

    use super::*;
    use crate::error::LostReason;
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
        for _ in 0..MAX_EVENTS_KEPT {
            manager.lock("k").acquire().await.unwrap().release().await.unwrap();
        }
        let LockEvent::Missed { count } = next(&mut events).await else { panic!("it is behind") };
        assert!(count >= MAX_EVENTS_KEPT as u64, "{count}");
        for _ in 0..MAX_EVENTS_KEPT {
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
