//! The queue of one lock: the holders, and the places that exclude each waiter.
//!
//! The places before a place decide whether it holds the lock. An exclusive place holds it if there are none, a shared
//! place if all of them are shared, and a place of at most n if all of them are of this kind and fewer than n. The
//! places before a place only become fewer, so a holder holds the lock until its own place is deleted. The youngest
//! holder has seen all other holders before it, so they are compatible.

use super::names::PlaceName;
use distlock_store::engine::{go_together, room};
use distlock_store::{Busy, LockKind, StoredLock};

/// The largest number of waiters that are named for operators.
const MOST_NAMED: usize = 1_000;

/// The owners of places, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QueueState {
    pub(super) places: Vec<PlaceName>,
}

/// The state of a place, which depends on the places before it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Holds,
    Waits,
    /// The lock is in use as this kind, which is not compatible with the kind of the place.
    WrongKind(LockKind),
    /// A place before it is not compatible with the first one, and will be deleted soon. It cannot be counted with the
    /// others.
    BehindWrongKind,
}

impl QueueState {
    /// From the names of the nodes below the lock's node, in any order.
    pub(super) fn read(names: Vec<String>) -> QueueState {
        let mut places: Vec<PlaceName> = names.into_iter().filter_map(PlaceName::read).collect();
        places.sort_by_key(|place| place.number);
        QueueState { places }
    }

    /// How many places are before this place. `None`: it does not exist.
    pub(super) fn position(&self, place: &PlaceName) -> Option<usize> {
        self.places.iter().position(|seen| seen == place)
    }

    /// The holders of the lock. The others wait.
    pub(super) fn holders(&self) -> &[PlaceName] {
        let Some(kind) = self.places.first().map(|first| first.kind) else { return &[] };
        let most = if kind == LockKind::Shared { usize::MAX } else { room(kind) };
        let alike = self.places.iter().take(most).take_while(|place| place.kind == kind);
        self.places.get(..alike.count()).unwrap_or_default()
    }

    /// The state of a place of this kind after this many others.
    pub(super) fn standing(&self, behind: usize, kind: LockKind) -> Standing {
        let older = self.places.iter().take(behind).map(|place| place.kind);
        match older.enumerate().find(|(_, older)| !go_together(kind, *older)) {
            Some((0, first)) => Standing::WrongKind(first),
            Some(_) if matches!(kind, LockKind::Limited { .. }) => Standing::BehindWrongKind,
            _ if self.in_the_way(behind, kind).len() < room(kind) => Standing::Holds,
            _ => Standing::Waits,
        }
    }

    /// The places among the first `behind` that exclude this kind. Only writers exclude a reader.
    pub(super) fn in_the_way(&self, behind: usize, kind: LockKind) -> Vec<PlaceName> {
        let is_in_the_way = |place: &&PlaceName| kind != LockKind::Shared || place.kind != kind;
        self.places.iter().take(behind).filter(is_in_the_way).cloned().collect()
    }

    /// The places that exclude `owner`, which is after this many others.
    pub(super) fn busy(&self, owner: &str, behind: usize) -> Busy {
        // Its own place is one of an earlier session, which the server has not ended yet.
        let first = self.places.first().map(PlaceName::owner).filter(|first| *first != owner);
        let busy = first.map_or_else(Busy::by_somebody, Busy::by);
        if behind > self.holders().len() { busy.behind_others() } else { busy }
    }

    /// The data for `inspect`.
    pub(super) fn stored(&self) -> Option<StoredLock> {
        let kind = self.places.first()?.kind;
        let holders = self.holders();
        let others = self.places.get(holders.len()..).unwrap_or_default();
        let waiters = u64::try_from(others.len()).unwrap_or(u64::MAX);
        let lock = StoredLock::new(kind).waiters(waiters);
        let lock = holders.iter().fold(lock, |lock, place| lock.holder(place.owner(), None));
        Some(others.iter().take(MOST_NAMED).fold(lock, |lock, place| lock.waiter(place.owner())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(names: &[&str]) -> QueueState {
        QueueState::read(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn places_stand_in_the_order_of_their_numbers() {
        let seen = seen(&["b-1-0000000010", "c-2-0000000009", "someone else's", "a-1-0000000011"]);
        let owners: Vec<&str> = seen.places.iter().map(PlaceName::owner).collect();
        assert_eq!(owners, ["c", "b", "a"]);
        assert_eq!(seen.position(&seen.places[2]), Some(2));
        assert_eq!(seen.busy("a", 2), Busy::by("c").behind_others());
        assert_eq!(seen.busy("b", 1), Busy::by("c"));
        assert_eq!(seen.busy("c", 1), Busy::by_somebody());
        let shown = StoredLock::new(LockKind::Exclusive).holder("c", None).waiters(2);
        let shown = shown.waiter("b").waiter("a");
        assert_eq!(seen.stored(), Some(shown));
        assert_eq!(QueueState::read(Vec::new()).stored(), None);
    }

    const TWO: LockKind = LockKind::Limited { max_holders: 2 };

    /// The places of a queue, from the kinds in their names.
    fn queue(kinds: &[&str]) -> QueueState {
        let name = |(number, kind): (usize, &&str)| format!("o{number}-1{kind}-{number:010}");
        QueueState::read(kinds.iter().enumerate().map(name).collect())
    }

    #[test]
    fn those_hold_the_lock_whom_nobody_older_keeps_out() {
        for (kinds, holders) in [
            (&["", "", ".shared"][..], 1),
            (&[".shared", ".shared", "", ".shared"], 2),
            (&[".max2", ".max2", ".max2"], 2),
            (&[".max9", ".max9"], 2),
            // An earlier version created this place.
            (&[".max9", "", ".max9"], 1),
            (&[], 0),
        ] {
            let seen = queue(kinds);
            assert_eq!(seen.holders().len(), holders, "{kinds:?}");
            for (at, place) in seen.places.iter().enumerate() {
                let holds = seen.standing(at, place.kind) == Standing::Holds;
                assert_eq!(holds, at < holders, "{kinds:?}, {at}");
            }
        }
    }

    #[test]
    fn a_reader_waits_for_writers_alone() {
        let seen = queue(&[".shared", "", ".shared", "", ".shared"]);
        let numbers = |kind| seen.in_the_way(4, kind).iter().map(|place| place.number).collect::<Vec<_>>();
        assert_eq!(numbers(LockKind::Shared), [1, 3]);
        assert_eq!(numbers(LockKind::Exclusive), [0, 1, 2, 3]);
    }

    #[test]
    fn kinds_that_do_not_go_together_are_told_so_by_the_first() {
        for (kinds, kind, standing) in [
            (&[".max2"][..], TWO, Standing::Holds),
            (&[".max2", ".max2"], TWO, Standing::Waits),
            (&[".max3"], TWO, Standing::WrongKind(LockKind::Limited { max_holders: 3 })),
            (&["", ".max2"], TWO, Standing::WrongKind(LockKind::Exclusive)),
            (&[".max2", ".shared"], TWO, Standing::BehindWrongKind),
            (&[".max2"], LockKind::Shared, Standing::WrongKind(TWO)),
            (&[".shared"], LockKind::Shared, Standing::Holds),
            (&[".shared", ""], LockKind::Shared, Standing::Waits),
            (&["", ".max2"], LockKind::Exclusive, Standing::Waits),
            (&[".shared", ".max2"], LockKind::Shared, Standing::Waits),
        ] {
            assert_eq!(queue(kinds).standing(kinds.len(), kind), standing, "{kinds:?}, {kind}");
        }
    }
}
