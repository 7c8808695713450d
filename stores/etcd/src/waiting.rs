//! The waiters of this process, and the places that each of them waits for. When a place ends, its waiters are
//! notified.

use std::collections::HashMap;
use std::sync::Arc;

use distlock_store::kit::shrink::shrink;

/// The owners of this process that wait for their turn, by key.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    keys: HashMap<Arc<str>, HashMap<String, Ahead>>,
}

/// The seats of the places that exclude an owner, with the create revisions of these places. A seat is used again after
/// its place has ended. The end of the older place may be reported after that.
pub(super) type Before = HashMap<String, i64>;

/// The places that an owner waits for.
#[derive(Debug)]
enum Ahead {
    /// The request is in flight. Meanwhile, the places at these seats have ended at these revisions. The reply may
    /// still contain them, and it may contain younger places at the same seats.
    Asked { gone: HashMap<String, i64> },
    /// It holds the lock when fewer than `room` of them are left.
    Known {
        /// The seat of its own place, and the create revision.
        own: (String, i64),
        before: Before,
        room: usize,
    },
}

/// The next step of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitState {
    /// Wait for the notification.
    Waits,
    /// Ask again, because it holds the lock by now, or its place has ended.
    Comes,
}

/// The effect of the end of a place on an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Fewer than `room` places exclude it, so it holds the lock.
    First,
    /// Its own place has ended.
    PlaceLost,
}

impl Waiters {
    /// Call this before a place is requested.
    pub(super) fn asks(&mut self, key: &Arc<str>, owner: &str) {
        let ahead = Ahead::Asked { gone: HashMap::new() };
        self.keys.entry(key.clone()).or_default().insert(owner.to_owned(), ahead);
    }

    /// Records the reply: the owner has a place at this seat since this revision, these places exclude it, and it holds
    /// the lock when fewer than `room` of them are left.
    pub(super) fn stands_behind(
        &mut self,
        key: &Arc<str>,
        owner: &str,
        own: (String, i64),
        mut before: Before,
        room: usize,
    ) -> WaitState {
        let Some(ahead) = self.keys.get_mut(key).and_then(|owners| owners.get_mut(owner)) else {
            // The connection was lost since then, so all waiters ask again.
            return WaitState::Waits;
        };
        if let Ahead::Asked { gone } = ahead {
            let has_gone = |other: &str, since| gone.get(other).is_some_and(|end| *end > since);
            if has_gone(&own.0, own.1) {
                return WaitState::Comes;
            }
            before.retain(|other, since| !has_gone(other, *since));
        }
        if before.len() < room {
            return WaitState::Comes;
        }
        *ahead = Ahead::Known { own, before, room };
        WaitState::Waits
    }

    /// The owner no longer waits.
    pub(super) fn goes(&mut self, key: &str, owner: &str) {
        if let Some(owners) = self.keys.get_mut(key) {
            owners.remove(owner);
            if owners.is_empty() {
                self.keys.remove(key);
                shrink(&mut self.keys);
            }
        }
    }

    /// The place at a seat has ended, at this revision. Returns the affected owners of this process.
    pub(super) fn gone(&mut self, key: &str, seat: &str, end: i64) -> Vec<(String, News)> {
        let Some(owners) = self.keys.get_mut(key) else { return Vec::new() };
        let mut next = Vec::new();
        for (waiter, ahead) in owners.iter_mut() {
            match ahead {
                Ahead::Asked { gone } => {
                    gone.insert(seat.to_owned(), end);
                }
                Ahead::Known { own, before, room } => {
                    if before.get(seat).is_some_and(|since| *since < end) {
                        before.remove(seat);
                    }
                    if own.0 == seat && own.1 < end {
                        next.push((waiter.clone(), News::PlaceLost));
                    } else if before.len() < *room {
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

    /// The watch has ended, so nothing that was known can be relied on.
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

    /// The revision of the places.
    const SINCE: i64 = 10;
    /// The revision of their end.
    const END: i64 = 20;

    fn those(seats: &[&str]) -> Before {
        seats.iter().map(|seat| ((*seat).to_owned(), SINCE)).collect()
    }

    /// The place of an owner whose seat has its name.
    fn at(seat: &str, since: i64) -> (String, i64) {
        (seat.to_owned(), since)
    }

    #[test]
    fn its_turn_comes_when_all_before_it_have_gone_in_any_order() {
        let (mut waiting, key) = (Waiters::default(), Arc::from("k"));
        waiting.asks(&key, "me");
        assert_eq!(
            waiting.stands_behind(&key, "me", at("me", SINCE), those(&["a", "b"]), 1),
            WaitState::Waits
        );
        assert!(waiting.gone("k", "b", END).is_empty());
        assert!(waiting.gone("other", "a", END).is_empty() && waiting.gone("k", "c", END).is_empty());
        assert_eq!(waiting.gone("k", "a", END), [("me".to_owned(), News::First)]);
        assert!(waiting.gone("k", "a", END).is_empty() && waiting.is_empty());
    }

    #[test]
    fn one_of_several_comes_in_when_one_of_them_has_gone_and_each_once() {
        let (mut waiting, key) = (Waiters::default(), Arc::from("k"));
        for (owner, before) in [("third", those(&["a", "b"])), ("fourth", those(&["a", "b", "third"]))] {
            waiting.asks(&key, owner);
            assert_eq!(waiting.stands_behind(&key, owner, at(owner, SINCE), before, 2), WaitState::Waits);
        }
        assert_eq!(waiting.gone("k", "b", END), [("third".to_owned(), News::First)]);
        assert_eq!(waiting.gone("k", "third", END), [("fourth".to_owned(), News::First)]);
        assert!(waiting.is_empty());
        waiting.asks(&key, "third");
        assert!(waiting.gone("k", "a", END).is_empty());
        assert_eq!(
            waiting.stands_behind(&key, "third", at("third", SINCE), those(&["a", "b"]), 2),
            WaitState::Comes
        );
    }

    #[test]
    fn what_went_while_the_store_was_asked_is_not_waited_for() {
        let (mut waiting, key) = (Waiters::default(), Arc::from("k"));
        waiting.asks(&key, "me");
        assert!(waiting.gone("k", "a", END).is_empty());
        assert_eq!(waiting.stands_behind(&key, "me", at("me", SINCE), those(&["a"]), 1), WaitState::Comes);
        waiting.asks(&key, "me");
        assert_eq!(
            waiting.stands_behind(&key, "me", at("me", SINCE), those(&["a", "b"]), 1),
            WaitState::Waits,
            "asked anew"
        );
    }

    #[test]
    fn the_end_of_an_older_place_of_the_same_owner_is_not_that_of_the_present_one() {
        let (mut waiting, key) = (Waiters::default(), Arc::from("k"));
        waiting.asks(&key, "me");
        assert!(waiting.gone("k", "a", SINCE - 1).is_empty());
        assert_eq!(waiting.stands_behind(&key, "me", at("me", SINCE), those(&["a"]), 1), WaitState::Waits);
        assert!(waiting.gone("k", "a", SINCE - 1).is_empty());
        assert_eq!(waiting.gone("k", "a", END), [("me".to_owned(), News::First)]);
    }

    #[test]
    fn the_end_of_an_older_place_at_the_own_seat_is_not_the_end_of_the_own_place() {
        let (mut waiting, key) = (Waiters::default(), Arc::from("k"));
        waiting.asks(&key, "me");
        assert!(waiting.gone("k", "c.0", SINCE - 2).is_empty());
        assert_eq!(waiting.stands_behind(&key, "me", at("c.0", SINCE), those(&["a"]), 1), WaitState::Waits);
        assert!(waiting.gone("k", "c.0", SINCE - 1).is_empty());
        assert_eq!(waiting.gone("k", "c.0", END), [("me".to_owned(), News::PlaceLost)]);
    }

    #[test]
    fn who_loses_its_own_place_asks_again() {
        let (mut waiting, key) = (Waiters::default(), Arc::from("k"));
        waiting.asks(&key, "me");
        assert_eq!(waiting.stands_behind(&key, "me", at("me", SINCE), those(&["a"]), 1), WaitState::Waits);
        assert_eq!(waiting.gone("k", "me", END), [("me".to_owned(), News::PlaceLost)]);
        // The place ends before the reply, which still contains it.
        waiting.asks(&key, "me");
        assert!(waiting.gone("k", "me", END).is_empty());
        assert_eq!(waiting.stands_behind(&key, "me", at("me", SINCE), those(&["a"]), 1), WaitState::Comes);
        assert_eq!(
            waiting.stands_behind(&key, "me", at("me", END + 1), those(&["a"]), 1),
            WaitState::Waits,
            "a new one"
        );
    }

    #[test]
    fn nothing_is_left_of_who_has_gone() {
        let (mut waiting, key) = (Waiters::default(), Arc::from("k"));
        for owner in ["one", "other"] {
            waiting.asks(&key, owner);
        }
        waiting.goes("k", "one");
        assert!(!waiting.is_empty());
        waiting.goes("k", "other");
        assert!(waiting.is_empty());
        waiting.asks(&key, "me");
        waiting.clear();
        assert_eq!(waiting.stands_behind(&key, "me", at("me", SINCE), those(&["a"]), 1), WaitState::Waits);
        assert!(waiting.is_empty());
    }
}
