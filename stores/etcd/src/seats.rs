//! The seats of this process: the keys of its places.
//!
//! The value of a place names its owner, and its key does not, so the process uses the same few keys again. etcd keeps
//! the names of deleted keys until it is compacted, and a request for a lock reads all names below the lock. If each
//! owner had its own key, a request would take longer with each lock that was released since the last compaction.
//!
//! A place that an owner of this process takes over keeps its key, and therefore its order in the queue.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use etcd_client::{Compare, CompareOp};

use super::keys::Names;
use super::places::{QueueState, value};
use distlock_store::LockKind;
use distlock_store::engine::client_of;
use distlock_store::kit::shrink::shrink;

/// The seats that owners of this process use, by key. An owner keeps its seat until a reply says that it has no place,
/// so a command whose reply is lost can be undone.
#[derive(Debug, Default)]
pub(super) struct Seats {
    /// The session that the places live with.
    lease: i64,
    keys: HashMap<Arc<str>, Vec<Used>>,
}

#[derive(Debug)]
struct Used {
    owner: String,
    /// `None`: another process has named it.
    number: Option<u32>,
    seat: Seat,
}

/// The seat of an owner: the key of its place, and the content that the key must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    /// The name of the key.
    pub(super) place: String,
    pub(super) kind: LockKind,
    /// The value while the owner has the place.
    pub(super) value: String,
    state: State,
}

/// What the replies have said about the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It was not the place of this owner.
    Free,
    /// The same, but a later request had no reply. So the owner may have the place.
    Asked,
    /// It was the place of this owner.
    Taken,
}

/// What a reply says about a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Learnt {
    Nothing,
    /// The request was based on something else, so it must be repeated if it wrote nothing.
    News,
}

impl Seats {
    /// Places are taken with this session from now on. The places of an earlier one have ended.
    pub(super) fn begin(&mut self, lease: i64) {
        if self.lease != lease {
            *self = Seats { lease, keys: HashMap::new() };
        }
    }

    /// The seat of an owner. An owner without one has no place.
    pub(super) fn seat(&self, names: &Names, key: &Arc<str>, owner: &str) -> Seat {
        let used = self.keys.get(key).and_then(|all| all.iter().find(|used| used.owner == owner));
        used.map_or_else(
            || Seat::new(names.place(key, owner), owner, LockKind::Exclusive, State::Taken),
            |used| used.seat.clone(),
        )
    }

    /// Gives a seat to an owner that wants a place, unless it has one.
    pub(super) fn take(&mut self, names: &Names, key: &Arc<str>, owner: &str, kind: LockKind) -> Seat {
        let all = self.keys.entry(key.clone()).or_default();
        if let Some(used) = all.iter().find(|used| used.owner == owner) {
            return used.seat.clone();
        }
        let (number, place) = free(names, key, owner, all, &QueueState::of(Vec::new()));
        let seat = Seat::new(place, owner, kind, State::Free);
        all.push(Used { owner: owner.to_owned(), number: Some(number), seat: seat.clone() });
        seat
    }

    /// An owner of this process takes over an exclusive place.
    pub(super) fn take_over(&mut self, key: &Arc<str>, owner: &str, place: String) -> Seat {
        self.forget(key, owner);
        let seat = Seat::new(place, owner, LockKind::Exclusive, State::Taken);
        let used = Used { owner: owner.to_owned(), number: None, seat: seat.clone() };
        self.keys.entry(key.clone()).or_default().push(used);
        seat
    }

    /// Records the places that a reply contains. If the owner has no place, and another one has its key, it gets
    /// another seat: a place that is kept, or that was handed over, has the key of an owner that is gone.
    pub(super) fn learn(&mut self, names: &Names, key: &Arc<str>, owner: &str, queue: &QueueState) -> Learnt {
        let Some(all) = self.keys.get_mut(key) else { return Learnt::Nothing };
        let Some(index) = all.iter().position(|used| used.owner == owner) else { return Learnt::Nothing };
        let mut used = all.swap_remove(index);
        let state = if queue.position(owner, self.lease).is_some() { State::Taken } else { State::Free };
        let is_occupied = state == State::Free && queue.has(&used.seat.place);
        if is_occupied {
            let (number, place) = free(names, key, owner, all, queue);
            used.number = Some(number);
            used.seat.place = place;
        }
        // What the request has compared is the same for both.
        let was_taken = used.seat.state == State::Taken;
        let is_news = is_occupied || was_taken != (state == State::Taken);
        let learnt = if is_news { Learnt::News } else { Learnt::Nothing };
        used.seat.state = state;
        all.push(used);
        learnt
    }

    /// The owner has no place.
    pub(super) fn forget(&mut self, key: &Arc<str>, owner: &str) {
        self.remove(key, |used| used.owner == owner);
    }

    /// A request for a place had no reply.
    pub(super) fn lose_reply(&mut self, key: &Arc<str>, owner: &str) {
        let used = self.keys.get_mut(key).and_then(|all| all.iter_mut().find(|used| used.owner == owner));
        if let Some(used) = used.filter(|used| used.seat.state == State::Free) {
            used.seat.state = State::Asked;
        }
    }

    /// The owner has no place, unless a reply has said that it has one, or a request had no reply.
    pub(super) fn forget_free(&mut self, key: &Arc<str>, owner: &str) {
        self.remove(key, |used| used.owner == owner && used.seat.state == State::Free);
    }

    fn remove(&mut self, key: &Arc<str>, is_meant: impl Fn(&Used) -> bool) {
        let Some(all) = self.keys.get_mut(key) else { return };
        all.retain(|used| !is_meant(used));
        if all.is_empty() {
            self.keys.remove(key);
            shrink(&mut self.keys);
        }
    }
}

/// The first seat that no owner of this process uses, and whose key no place in the queue has.
fn free(names: &Names, key: &str, owner: &str, all: &[Used], queue: &QueueState) -> (u32, String) {
    let client = client_of(owner).unwrap_or(owner);
    let used: HashSet<u32> = all.iter().filter_map(|used| used.number).collect();
    let mut number = 0;
    loop {
        if !used.contains(&number) {
            let place = names.place(key, &format!("{client}.{number}"));
            if !queue.has(&place) {
                return (number, place);
            }
        }
        number += 1;
    }
}

impl Seat {
    fn new(place: String, owner: &str, kind: LockKind, state: State) -> Seat {
        Seat { place, kind, value: value(kind, owner), state }
    }

    /// The key is what the replies have said. So no request writes over the place of another owner.
    pub(super) fn is_unchanged(&self) -> Compare {
        match self.state {
            State::Free | State::Asked => Compare::create_revision(&*self.place, CompareOp::Equal, 0),
            State::Taken => self.has_its_owner(),
        }
    }

    /// The key exists, and its owner has it.
    pub(super) fn has_its_owner(&self) -> Compare {
        Compare::value(&*self.place, CompareOp::Equal, &*self.value)
    }

    /// Whether a reply has said that the owner has the place.
    pub(super) fn is_taken(&self) -> bool {
        self.state == State::Taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::{Place, kept_value};

    const ONE: &str = "dl1:c:1";
    const OTHER: &str = "dl1:c:2";
    const KIND: LockKind = LockKind::Exclusive;

    struct Test {
        seats: Seats,
        names: Names,
        key: Arc<str>,
    }

    impl Test {
        fn new() -> Test {
            Test { seats: Seats::default(), names: Names::below("r"), key: Arc::from("k") }
        }

        fn take(&mut self, owner: &str) -> Seat {
            self.seats.take(&self.names, &self.key, owner, KIND)
        }

        fn learn(&mut self, owner: &str, places: &[(&str, String)]) -> Learnt {
            let place =
                |(name, value): &(&str, String)| Place::of(name.as_bytes(), value.as_bytes(), &self.names);
            let queue = QueueState::of(places.iter().filter_map(place).collect());
            self.seats.learn(&self.names, &self.key, owner, &queue)
        }
    }

    #[test]
    fn a_seat_is_used_again_when_its_owner_has_no_place() {
        let mut test = Test::new();
        let first = test.take(ONE);
        assert_eq!((&*first.place, &*first.value), ("r/locks/k/c.0", "x dl1:c:1"));
        assert_eq!(test.take(ONE), first);
        assert_eq!(test.take(OTHER).place, "r/locks/k/c.1");
        test.seats.forget(&test.key, ONE);
        assert_eq!(test.take("dl1:c:3").place, "r/locks/k/c.0");
        assert_eq!(test.take("dl1:c:4").place, "r/locks/k/c.2");
    }

    #[test]
    fn an_owner_keeps_the_seat_at_which_a_reply_has_shown_its_place() {
        let mut test = Test::new();
        test.take(ONE);
        test.seats.forget_free(&test.key, ONE);
        assert!(test.seats.keys.is_empty(), "no reply has shown its place");
        let seat = test.take(ONE);
        assert_eq!(test.learn(ONE, &[(&*seat.place, value(KIND, ONE))]), Learnt::News);
        assert_eq!(test.learn(ONE, &[(&*seat.place, value(KIND, ONE))]), Learnt::Nothing);
        test.seats.forget_free(&test.key, ONE);
        assert!(test.take(ONE).is_taken());
        assert_eq!(test.learn(ONE, &[]), Learnt::News, "its place has ended");
        assert!(!test.take(ONE).is_taken());
    }

    #[test]
    fn an_owner_keeps_its_seat_after_a_request_without_a_reply_until_a_reply_says_that_it_has_no_place() {
        let mut test = Test::new();
        let seat = test.take(ONE);
        test.seats.lose_reply(&test.key, ONE);
        // The next request was not sent.
        test.seats.forget_free(&test.key, ONE);
        assert_eq!(test.take(OTHER).place, "r/locks/k/c.1", "the first owner may have its place");
        assert_eq!((test.take(ONE).place, test.take(ONE).is_taken()), (seat.place, false));
        assert_eq!(test.learn(ONE, &[]), Learnt::Nothing);
        test.seats.forget_free(&test.key, ONE);
        assert_eq!(test.take("dl1:c:3").place, "r/locks/k/c.0");
    }

    #[test]
    fn an_owner_gets_another_seat_if_the_key_has_a_place_that_is_kept_or_was_handed_over() {
        for occupied in [kept_value(KIND), value(KIND, "dl1:gone:1")] {
            let mut test = Test::new();
            let seat = test.take(ONE);
            test.take(OTHER);
            let places = [(&*seat.place, occupied.clone()), ("r/locks/k/c.2", occupied)];
            assert_eq!(test.learn(ONE, &places), Learnt::News);
            assert_eq!(test.take(ONE).place, "r/locks/k/c.3", "the other owner has c.1");
            assert_eq!(test.learn(ONE, &places), Learnt::Nothing);
        }
    }

    /// Otherwise, the end of that place would let the next process in, and this one would hold the lock, too.
    #[test]
    fn a_place_of_the_former_session_is_not_the_place_of_its_owner() {
        let mut test = Test::new();
        test.seats.begin(7);
        let seat = test.take(ONE);
        test.seats.begin(8);
        assert_eq!(test.take(ONE).place, seat.place);
        // As read, with the lease of the former session.
        assert_eq!(test.learn(ONE, &[(&*seat.place, value(KIND, ONE))]), Learnt::News);
        assert_eq!((&*test.take(ONE).place, test.take(ONE).is_taken()), ("r/locks/k/c.1", false));
    }

    #[test]
    fn a_place_that_was_taken_over_keeps_its_key() {
        let mut test = Test::new();
        let seat = test.seats.take_over(&test.key, ONE, "r/locks/k/other.0".to_owned());
        assert_eq!((&*seat.place, &*seat.value), ("r/locks/k/other.0", "x dl1:c:1"));
        assert_eq!(test.seats.seat(&test.names, &test.key, ONE), seat);
        assert_eq!(test.take(OTHER).place, "r/locks/k/c.0");
    }

    #[test]
    fn an_owner_without_a_seat_has_no_place_and_a_new_session_has_no_seats() {
        let mut test = Test::new();
        let seat = test.take(ONE);
        assert_ne!(test.seats.seat(&test.names, &test.key, OTHER).place, seat.place);
        test.seats.begin(7);
        assert!(test.seats.keys.is_empty());
        test.take(ONE);
        test.seats.begin(7);
        assert!(!test.seats.keys.is_empty(), "another connection of the same session");
    }
}
