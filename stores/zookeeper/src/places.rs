//! The known places of the owners of this process.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::AbortHandle;

use super::names::PlaceName;
use distlock_store::Owner;
use distlock_store::kit::shrink::shrink;

/// The places of this process, by key and owner.
#[derive(Debug, Default)]
pub(super) struct Places {
    owners: HashMap<(Arc<str>, Owner), OwnPlace>,
}

#[derive(Debug)]
struct OwnPlace {
    /// The session of the request. After another session has begun, nothing here is valid.
    session: i64,
    /// `None`: the place was requested, and the reply is unknown.
    name: Option<PlaceName>,
    turn: TurnState,
    /// Whether there may be a text that the release must remove.
    has_text: bool,
}

/// Whether the owner holds the lock.
#[derive(Debug)]
enum TurnState {
    NotKnown,
    /// A task watches the place before it.
    Awaited(AbortHandle),
    Come(Came),
}

/// How an owner became the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// No place was before it.
    AtOnce,
    /// It has waited, so others may wait after it.
    InTurn,
}

/// The knowledge about the place of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It was never requested in this session.
    Nothing,
    /// It was requested, and may exist.
    Asked,
    Stands(PlaceName),
}

/// A place that its owner leaves.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) name: PlaceName,
    /// `None`: it waits.
    pub(super) came: Option<Came>,
}

impl Places {
    pub(super) fn known(&self, key: &Arc<str>, owner: &Owner, session: i64) -> Known {
        match self.owners.get(&(key.clone(), owner.clone())).filter(|entry| entry.session == session) {
            None => Known::Nothing,
            Some(OwnPlace { name: None, .. }) => Known::Asked,
            Some(OwnPlace { name: Some(name), .. }) => Known::Stands(name.clone()),
        }
    }

    /// A place is requested.
    pub(super) fn asks(&mut self, key: &Arc<str>, owner: &Owner, session: i64) {
        self.set(key, owner, session, None);
    }

    /// The place was seen. Nothing else changes if it is known.
    pub(super) fn stands(&mut self, key: &Arc<str>, owner: &Owner, session: i64, name: &PlaceName) {
        if self.known(key, owner, session) != Known::Stands(name.clone()) {
            self.set(key, owner, session, Some(name.clone()));
        }
    }

    /// The owner may have a text from now on.
    pub(super) fn publishes(&mut self, key: &Arc<str>, owner: &Owner) {
        if let Some(entry) = self.owners.get_mut(&(key.clone(), owner.clone())) {
            entry.has_text = true;
        }
    }

    pub(super) fn has_text(&self, key: &Arc<str>, owner: &Owner) -> bool {
        self.owners.get(&(key.clone(), owner.clone())).is_some_and(|entry| entry.has_text)
    }

    /// A task watches the place before it from now on.
    pub(super) fn awaits(&mut self, key: &Arc<str>, owner: &Owner, task: AbortHandle) {
        match self.owners.get_mut(&(key.clone(), owner.clone())) {
            Some(entry) => entry.stop(TurnState::Awaited(task)),
            None => task.abort(),
        }
    }

    /// Whether a task watches the place before it.
    pub(super) fn is_awaited(&self, key: &Arc<str>, owner: &Owner) -> bool {
        let entry = self.owners.get(&(key.clone(), owner.clone()));
        entry.is_some_and(|entry| matches!(&entry.turn, TurnState::Awaited(task) if !task.is_finished()))
    }

    /// From now on, no other place excludes this one.
    pub(super) fn comes(&mut self, key: &Arc<str>, owner: &Owner, came: Came) {
        if let Some(entry) = self.owners.get_mut(&(key.clone(), owner.clone()))
            && !matches!(entry.turn, TurnState::Come(_))
        {
            entry.stop(TurnState::Come(came));
        }
    }

    /// Whether it is known that no other place excludes this one.
    pub(super) fn has_come(&self, key: &Arc<str>, owner: &Owner) -> bool {
        let entry = self.owners.get(&(key.clone(), owner.clone()));
        entry.is_some_and(|entry| matches!(entry.turn, TurnState::Come(_)))
    }

    /// The place was released or lost. Its task is ended.
    pub(super) fn goes(&mut self, key: &Arc<str>, owner: &Owner, session: i64) -> Option<Left> {
        let mut entry = self.owners.remove(&(key.clone(), owner.clone()))?;
        shrink(&mut self.owners);
        let came = match entry.turn {
            TurnState::Come(came) => Some(came),
            TurnState::NotKnown | TurnState::Awaited(_) => None,
        };
        entry.stop(TurnState::NotKnown);
        entry.name.filter(|_| entry.session == session).map(|name| Left { name, came })
    }

    /// The connection is lost. All watching tasks end, and all waiters ask again.
    pub(super) fn watch_nothing(&mut self) {
        for entry in self.owners.values_mut() {
            if matches!(entry.turn, TurnState::Awaited(_)) {
                entry.stop(TurnState::NotKnown);
            }
        }
    }

    /// The session is over, and all its places are gone.
    pub(super) fn clear(&mut self) {
        self.watch_nothing();
        self.owners = HashMap::new();
    }

    fn set(&mut self, key: &Arc<str>, owner: &Owner, session: i64, name: Option<PlaceName>) {
        let entry = OwnPlace { session, name, turn: TurnState::NotKnown, has_text: false };
        if let Some(mut former) = self.owners.insert((key.clone(), owner.clone()), entry) {
            former.stop(TurnState::NotKnown);
        }
    }
}

impl OwnPlace {
    fn stop(&mut self, next: TurnState) {
        if let TurnState::Awaited(task) = std::mem::replace(&mut self.turn, next) {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use distlock_store::LockKind;

    const SESSION: i64 = 0x1f;

    fn rig() -> (Places, Arc<str>, Owner, PlaceName) {
        let owner = Owner::new("c", 1);
        let kind = LockKind::Exclusive;
        let name = PlaceName::of(&PlaceName::prefix(owner.as_str(), SESSION, kind), kind, "0000000003", 3);
        (Places::default(), Arc::from("k"), owner, name)
    }

    #[test]
    fn what_was_asked_may_be_there_until_it_was_seen() {
        let (mut places, key, owner, name) = rig();
        assert_eq!(places.known(&key, &owner, SESSION), Known::Nothing);
        places.asks(&key, &owner, SESSION);
        assert_eq!(places.known(&key, &owner, SESSION), Known::Asked);
        places.stands(&key, &owner, SESSION, &name);
        assert_eq!(places.known(&key, &owner, SESSION), Known::Stands(name.clone()));
        assert_eq!(places.known(&key, &owner, SESSION + 1), Known::Nothing, "another session has no place");
        assert_eq!(places.goes(&key, &owner, SESSION), Some(Left { name, came: None }));
        assert_eq!(places.goes(&key, &owner, SESSION), None);
    }

    #[test]
    fn how_a_holder_came_is_kept_until_it_goes() {
        let (mut places, key, owner, name) = rig();
        places.stands(&key, &owner, SESSION, &name);
        assert!(!places.has_come(&key, &owner));
        places.comes(&key, &owner, Came::InTurn);
        assert!(places.has_come(&key, &owner));
        places.stands(&key, &owner, SESSION, &name);
        places.comes(&key, &owner, Came::AtOnce);
        places.watch_nothing();
        assert_eq!(places.goes(&key, &owner, SESSION), Some(Left { name, came: Some(Came::InTurn) }));
    }

    #[tokio::test]
    async fn no_task_watches_for_a_place_that_is_given_up() {
        let (mut places, key, owner, name) = rig();
        let watch = || tokio::spawn(std::future::pending::<()>());
        for end in [
            |places: &mut Places, key: &Arc<str>, owner: &Owner| drop(places.goes(key, owner, SESSION)),
            |places: &mut Places, _: &Arc<str>, _: &Owner| {
                assert!(!places.owners.is_empty());
                places.clear();
            },
            |places: &mut Places, _: &Arc<str>, _: &Owner| places.watch_nothing(),
            |places: &mut Places, key: &Arc<str>, owner: &Owner| places.asks(key, owner, SESSION),
            |places: &mut Places, key: &Arc<str>, owner: &Owner| places.comes(key, owner, Came::InTurn),
        ] {
            places.stands(&key, &owner, SESSION, &name);
            let (first, second) = (watch(), watch());
            places.awaits(&key, &owner, first.abort_handle());
            assert!(places.is_awaited(&key, &owner));
            places.awaits(&key, &owner, second.abort_handle());
            assert!(first.await.is_err_and(|error| error.is_cancelled()));
            end(&mut places, &key, &owner);
            assert!(!places.is_awaited(&key, &owner));
            second.abort();
            drop(second.await);
            places.clear();
        }
        let task = watch();
        places.awaits(&key, &owner, task.abort_handle());
        assert!(task.await.is_err_and(|error| error.is_cancelled()), "there is no such place");
    }
}
