//! Waits in the queue of a lock.
//!
//! Of the places that exclude it, a waiter watches the nearest ones: one, or n for a lock of at most n holders. Fewer
//! are not enough, because any n - 1 of these places may still exist when the waiter's turn comes. When a watched place
//! is gone, the waiter watches the next one. If there is none, it holds the lock. So at most the next n waiters watch a
//! place, whatever the number of waiters.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use zookeeper_client::{Client, Error, EventType};

use super::names::PlaceName;
use super::places::{Came, Places};
use super::queue::QueueState;
use distlock_store::engine::room;
use distlock_store::kit::sync::Locked;
use distlock_store::{Grant, LockKind, Owner, StoreEvents};

/// Waits for the turn of one owner.
pub(super) struct Follower {
    pub(super) client: Client,
    pub(super) events: StoreEvents,
    pub(super) places: Arc<Locked<Places>>,
    pub(super) key: Arc<str>,
    pub(super) owner: Owner,
    /// The path of the lock's node.
    pub(super) lock: String,
    pub(super) place: PlaceName,
    pub(super) is_fenced: bool,
}

/// The outcome of a wait.
#[derive(Debug, PartialEq, Eq)]
enum PlaceOutcome {
    /// It holds the lock.
    Comes,
    /// The place no longer exists.
    Lost,
    /// Unknown. All waiters ask again when the connection is back.
    Unknown,
}

/// Waits until a place ends, and returns the event.
async fn end_of(client: Client, place: PlaceName, path: String) -> (PlaceName, Result<EventType, Error>) {
    let watched = client.get_and_watch_data(&path).await.map(|(.., watcher)| watcher);
    // The session ends when the last task drops the client.
    drop(client);
    match watched {
        Ok(watcher) => (place, Ok(watcher.changed().await.event_type)),
        Err(error) => (place, Err(error)),
    }
}

impl Follower {
    /// Reports the grant when enough of the places in `before`, which exclude this one, are gone for this one to hold
    /// the lock.
    pub(super) async fn follow(self, before: Vec<PlaceName>) {
        let grant = match self.turn(before).await {
            PlaceOutcome::Comes if self.is_fenced => self.fenced().await,
            // A place holds the lock until it is deleted, that is, as long as the session lives. So the grant does not
            // age.
            PlaceOutcome::Comes => Grant::new().at_most_old(Duration::ZERO),
            PlaceOutcome::Lost => return self.events.granted(&self.key, self.owner.as_str(), Grant::new()),
            PlaceOutcome::Unknown => return,
        };
        self.places.lock().comes(&self.key, &self.owner, Came::InTurn);
        self.events.granted(&self.key, self.owner.as_str(), grant);
    }

    async fn turn(&self, mut before: Vec<PlaceName>) -> PlaceOutcome {
        let (room, mut watched, mut ends) = (room(self.place.kind), HashSet::new(), JoinSet::new());
        loop {
            while watched.len() < room {
                let Some(nearest) = before.pop() else { return PlaceOutcome::Comes };
                ends.spawn(end_of(self.client.clone(), nearest.clone(), nearest.path(&self.lock)));
                watched.insert(nearest.number);
            }
            let Some(Ok((place, end))) = ends.join_next().await else { return PlaceOutcome::Unknown };
            watched.remove(&place.number);
            match end {
                // Only the holder of an exclusive lock writes to its place, and the same command deletes the place. So
                // it was the first place.
                Ok(EventType::NodeDataChanged) if place.kind == LockKind::Exclusive => {
                    return PlaceOutcome::Comes;
                }
                // Its owner stopped waiting, its session is over, or it was one of several holders.
                Ok(EventType::NodeDeleted) | Err(Error::NoNode)
                    if before.is_empty() && place.kind != LockKind::Exclusive => {}
                Ok(EventType::NodeDeleted) if room == 1 && !before.is_empty() => {}
                // The place ended before it was watched, or most places before the waiter are gone, and some may be
                // left. Or the place was the first one and exclusive. In that case, another owner may have taken it
                // over.
                Ok(EventType::NodeDeleted) | Err(Error::NoNode) => {
                    match self.client.list_children(&self.lock).await {
                        Ok(names) => {
                            let seen = QueueState::read(names);
                            let Some(behind) = seen.position(&self.place) else { return PlaceOutcome::Lost };
                            before = seen.in_the_way(behind, self.place.kind);
                            before.retain(|place| !watched.contains(&place.number));
                        }
                        Err(Error::NoNode) => return PlaceOutcome::Lost,
                        Err(_) => return PlaceOutcome::Unknown,
                    }
                }
                Ok(_) | Err(_) => return PlaceOutcome::Unknown,
            }
        }
    }

    /// The number of the change that removed the place before this one, or of a later change. It is higher than all
    /// fencing tokens so far, because those were created for earlier holders.
    async fn fenced(&self) -> Grant {
        match self.client.check_stat(&self.lock).await {
            Ok(Some(stat)) => match u64::try_from(stat.pzxid) {
                Ok(fence) => Grant::new().fence(fence).at_most_old(Duration::ZERO),
                Err(_) => Grant::new(),
            },
            Ok(None) | Err(_) => Grant::new(),
        }
    }
}
