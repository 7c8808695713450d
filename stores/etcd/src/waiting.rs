//! Who of this process waits for whom, so that the end of a place can be told to the one who stood behind it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use distlock_store::kit::shrink::shrink;

/// The owners of this process who wait for their turn, by key.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    keys: HashMap<Arc<str>, HashMap<String, Ahead>>,
}

/// Those who stand before an owner.
#[derive(Debug)]
enum Ahead {
    /// The store is being asked. These have gone meanwhile: they may stand in its answer.
    Asked {
        gone: HashSet<String>,
    },
    Known(HashSet<String>),
}

/// What an owner has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Wait until it is told.
    Waits,
    /// Ask again: all that stood before it have gone.
    Comes,
}

/// What the end of a place means for an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Nobody stands before it any more: the lock is its own.
    First,
    /// The place was its own.
    PlaceLost,
}

impl Waiting {
    /// To be called before the store is asked for a place.
    pub(super) fn asks(&mut self, key: &Arc<str>, owner: &str) {
        let ahead = Ahead::Asked { gone: HashSet::new() };
        self.keys.entry(key.clone()).or_default().insert(owner.to_owned(), ahead);
    }

    /// The store's answer: these stand before it.
    pub(super) fn stands_behind(&mut self, key: &Arc<str>, owner: &str, mut before: HashSet<String>) -> Turn {
        let Some(ahead) = self.keys.get_mut(key).and_then(|owners| owners.get_mut(owner)) else {
            // The connection was lost since: everybody asks again.
            return Turn::Waits;
        };
        if let Ahead::Asked { gone } = ahead {
            before.retain(|other| !gone.contains(other));
        }
        if before.is_empty() {
            return Turn::Comes;
        }
        *ahead = Ahead::Known(before);
        Turn::Waits
    }

    /// It does not wait any more.
    pub(super) fn goes(&mut self, key: &str, owner: &str) {
        if let Some(owners) = self.keys.get_mut(key) {
            owners.remove(owner);
            if owners.is_empty() {
                self.keys.remove(key);
                shrink(&mut self.keys);
            }
        }
    }

    /// A place has ended. Returns the owners of this process whom that concerns.
    pub(super) fn gone(&mut self, key: &str, owner: &str) -> Vec<(String, News)> {
        let Some(owners) = self.keys.get_mut(key) else { return Vec::new() };
        let mut next = Vec::new();
        for (waiter, ahead) in owners.iter_mut() {
            match ahead {
                Ahead::Asked { gone } => {
                    gone.insert(owner.to_owned());
                }
                Ahead::Known(before) => {
                    before.remove(owner);
                    if waiter == owner {
                        next.push((waiter.clone(), News::PlaceLost));
                    } else if before.is_empty() {
                        next.push((waiter.clone(), News::First));
                    }
                }
            }
        }
        for (waiter, _) in &next {
            self.goes(key, waiter);
        }
        next
    }

    /// The watch has ended: what was known is not worth anything.
    pub(super) fn clear(&mut self) {
        self.keys = HashMap::new();
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn those(owners: &[&str]) -> HashSet<String> {
        owners.iter().map(|owner| (*owner).to_owned()).collect()
    }

    #[test]
    fn its_turn_comes_when_all_before_it_have_gone_in_any_order() {
        let (mut waiting, key) = (Waiting::default(), Arc::from("k"));
        waiting.asks(&key, "me");
        assert_eq!(waiting.stands_behind(&key, "me", those(&["a", "b"])), Turn::Waits);
        assert!(waiting.gone("k", "b").is_empty());
        assert!(waiting.gone("other", "a").is_empty() && waiting.gone("k", "c").is_empty());
        assert_eq!(waiting.gone("k", "a"), [("me".to_owned(), News::First)]);
        assert!(waiting.gone("k", "a").is_empty() && waiting.is_empty());
    }

    #[test]
    fn what_went_while_the_store_was_asked_is_not_waited_for() {
        let (mut waiting, key) = (Waiting::default(), Arc::from("k"));
        waiting.asks(&key, "me");
        assert!(waiting.gone("k", "a").is_empty());
        assert_eq!(waiting.stands_behind(&key, "me", those(&["a"])), Turn::Comes);
        waiting.asks(&key, "me");
        assert_eq!(waiting.stands_behind(&key, "me", those(&["a", "b"])), Turn::Waits, "asked anew");
    }

    #[test]
    fn who_loses_its_own_place_asks_again() {
        let (mut waiting, key) = (Waiting::default(), Arc::from("k"));
        waiting.asks(&key, "me");
        assert_eq!(waiting.stands_behind(&key, "me", those(&["a"])), Turn::Waits);
        assert_eq!(waiting.gone("k", "me"), [("me".to_owned(), News::PlaceLost)]);
    }

    #[test]
    fn nothing_is_left_of_who_has_gone() {
        let (mut waiting, key) = (Waiting::default(), Arc::from("k"));
        for owner in ["one", "other"] {
            waiting.asks(&key, owner);
        }
        waiting.goes("k", "one");
        assert!(!waiting.is_empty());
        waiting.goes("k", "other");
        assert!(waiting.is_empty());
        waiting.asks(&key, "me");
        waiting.clear();
        assert_eq!(waiting.stands_behind(&key, "me", those(&["a"])), Turn::Waits);
        assert!(waiting.is_empty());
    }
}
