//! The queue of one lock, as it is read, and waiting for one's turn in it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zookeeper_client::{Client, Error, EventType};

use super::names::PlaceName;
use super::places::{Came, Places};
use distlock_store::LockKind;
use distlock_store::{Busy, Grant, Owner, StoreEvents, StoredLock};

/// So many who wait are named to those who look.
const MOST_NAMED: usize = 1_000;

/// Those who have a place, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) places: Vec<PlaceName>,
}

impl Seen {
    /// From the names of the nodes below that of the lock, which come in any order.
    pub(super) fn read(names: Vec<String>) -> Seen {
        let mut places: Vec<PlaceName> = names.into_iter().filter_map(PlaceName::read).collect();
        places.sort_by_key(|place| place.number);
        Seen { places }
    }

    /// Behind how many others this place stands; `None`: it is not there.
    pub(super) fn position(&self, place: &PlaceName) -> Option<usize> {
        self.places.iter().position(|seen| seen == place)
    }

    /// The place whose name begins so.
    pub(super) fn find(&self, prefix: &str) -> Option<PlaceName> {
        self.places.iter().find(|place| place.is_of(prefix)).cloned()
    }

    /// Who is in the way of `owner`, who stands behind so many.
    pub(super) fn busy(&self, owner: &str, behind: usize) -> Busy {
        // A place of its own is that of an earlier session, which the server has not ended yet.
        let first = self.places.first().map(PlaceName::owner).filter(|first| *first != owner);
        let busy = first.map_or_else(Busy::by_somebody, Busy::by);
        if behind > 1 { busy.behind_others() } else { busy }
    }

    /// What `inspect` shows.
    pub(super) fn stored(&self) -> Option<StoredLock> {
        let (first, others) = self.places.split_first()?;
        let waiters = u64::try_from(others.len()).unwrap_or(u64::MAX);
        let lock = StoredLock::new(LockKind::Exclusive).holder(first.owner(), None).waiters(waiters);
        Some(others.iter().take(MOST_NAMED).fold(lock, |lock, place| lock.waiter(place.owner())))
    }

    /// The places before this one.
    pub(super) fn before(mut self, behind: usize) -> Vec<PlaceName> {
        self.places.truncate(behind);
        self.places
    }
}

/// Waits for the turn of one owner.
pub(super) struct Follower {
    pub(super) client: Client,
    pub(super) events: StoreEvents,
    pub(super) places: Arc<Mutex<Places>>,
    pub(super) key: Arc<str>,
    pub(super) owner: Owner,
    /// The path of the lock's node.
    pub(super) lock: String,
    pub(super) place: PlaceName,
    pub(super) is_fenced: bool,
}

/// What became of a place.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    /// It is the first.
    Comes,
    /// It is not there any more.
    Lost,
    /// There is no telling: everybody asks again when the connection is back.
    Unknown,
}

impl Follower {
    /// Tells when the last of `before` has gone. Only the nearest of them is watched.
    pub(super) async fn follow(self, before: Vec<PlaceName>) {
        let grant = match self.turn(before).await {
            Turn::Comes if self.is_fenced => self.fenced().await,
            // A place stays first until it is deleted itself, and so as long as the session lives: it does not age.
            Turn::Comes => Grant::new().at_most_old(Duration::ZERO),
            Turn::Lost => return self.events.granted(&self.key, self.owner.as_str(), Grant::new()),
            Turn::Unknown => return,
        };
        self.places.lock().unwrap_or_else(PoisonError::into_inner).comes(
            &self.key,
            &self.owner,
            Came::InTurn,
        );
        self.events.granted(&self.key, self.owner.as_str(), grant);
    }

    async fn turn(&self, mut before: Vec<PlaceName>) -> Turn {
        while let Some(nearest) = before.pop() {
            match self.client.get_and_watch_data(&nearest.path(&self.lock)).await {
                Ok((.., watcher)) => match watcher.changed().await.event_type {
                    // Only a holder writes to its place, and it deletes it by the same command: it was the first.
                    EventType::NodeDataChanged => return Turn::Comes,
                    // It gave up, or its session is over, or nobody stood behind it when it came. Others may be left.
                    EventType::NodeDeleted => {}
                    EventType::NodeCreated | EventType::NodeChildrenChanged | EventType::Session => {
                        return Turn::Unknown;
                    }
                },
                Err(Error::NoNode) if before.is_empty() => {}
                // It went before it was watched; it may have been the holder, or somebody between.
                Err(Error::NoNode) => match self.client.list_children(&self.lock).await {
                    Ok(names) => {
                        let seen = Seen::read(names);
                        let Some(behind) = seen.position(&self.place) else { return Turn::Lost };
                        before = seen.before(behind);
                    }
                    Err(Error::NoNode) => return Turn::Lost,
                    Err(_) => return Turn::Unknown,
                },
                Err(_) => return Turn::Unknown,
            }
        }
        Turn::Comes
    }

    /// The number of the change by which the one before has gone, or of a later one. It is above all that were
    /// handed out, since those were given to who was first before.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(names: &[&str]) -> Seen {
        Seen::read(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn places_stand_in_the_order_of_their_numbers() {
        let seen = seen(&["b-1-0000000010", "c-2-0000000009", "someone else's", "a-1-0000000011"]);
        let owners: Vec<&str> = seen.places.iter().map(PlaceName::owner).collect();
        assert_eq!(owners, ["c", "b", "a"]);
        let last = seen.find("a-1-").unwrap();
        assert_eq!((seen.position(&last), seen.find("a-2-")), (Some(2), None));
        assert_eq!(seen.busy("a", 2), Busy::by("c").behind_others());
        assert_eq!(seen.busy("b", 1), Busy::by("c"));
        assert_eq!(seen.busy("c", 1), Busy::by_somebody());
        let shown = StoredLock::new(LockKind::Exclusive).holder("c", None).waiters(2);
        let shown = shown.waiter("b").waiter("a");
        assert_eq!(seen.stored(), Some(shown));
        let before = seen.before(2);
        assert_eq!(before.iter().map(PlaceName::owner).collect::<Vec<_>>(), ["c", "b"]);
        assert_eq!(Seen::read(Vec::new()).stored(), None);
    }
}
