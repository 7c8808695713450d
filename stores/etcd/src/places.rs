//! The places of a lock: their kinds, the holders and the waiters.

use etcd_client::{GetResponse, KeyValue};

use super::keys::Names;
use distlock_store::engine::{go_together, room};
use distlock_store::{Busy, KEPT, LockKind, StoredLock};

/// The value of a place that is kept after its owner has released it, and the end of one that is not exclusive.
const KEPT_PLACE: &str = "kept";

/// The maximum number of waiters of a lock that are named.
const MOST_NAMED: usize = 1_000;

/// The value of a place: its kind, and its owner. The value of a limited place begins with a digit, and that of a
/// shared one with `s`. Transactions compare the values of all places of a lock in this way.
pub(super) fn value(kind: LockKind, owner: &str) -> String {
    match kind {
        LockKind::Exclusive => format!("x {owner}"),
        LockKind::Shared => format!("s {owner}"),
        LockKind::Limited { max_holders } => format!("{max_holders} holders {owner}"),
    }
}

/// The value of a place that is kept.
pub(super) fn kept_value(kind: LockKind) -> String {
    match kind {
        LockKind::Exclusive => KEPT_PLACE.to_owned(),
        LockKind::Shared | LockKind::Limited { .. } => value(kind, KEPT_PLACE),
    }
}

/// The kind in a value, and the owner. Programs of earlier versions write no owner.
fn parts(value: &str) -> (LockKind, Option<&str>) {
    let limited = value.split_once(' ').and_then(|(limit, rest)| Some((limit.parse().ok()?, rest)));
    // With a limit of zero, even the first place would not hold the lock.
    if let Some((max_holders, rest)) = limited.filter(|(limit, _)| *limit > 0) {
        return (LockKind::Limited { max_holders }, rest.split_once(' ').map(|(_, owner)| owner));
    }
    let kind = if value.starts_with('s') { LockKind::Shared } else { LockKind::Exclusive };
    (kind, value.strip_prefix("x ").or_else(|| value.strip_prefix("s ")))
}

/// A place as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) name: Vec<u8>,
    /// Its present owner.
    pub(super) owner: String,
    /// The last part of its name. The end of a place is reported by its name.
    pub(super) seat: String,
    pub(super) create_revision: i64,
    pub(super) mod_revision: i64,
    pub(super) lease: i64,
    pub(super) kind: LockKind,
    pub(super) kept: bool,
}

impl Place {
    pub(super) fn read(kv: &KeyValue, names: &Names) -> Option<Place> {
        Some(Place {
            create_revision: kv.create_revision(),
            mod_revision: kv.mod_revision(),
            lease: kv.lease(),
            ..Place::of(kv.key(), kv.value(), names)?
        })
    }

    /// Reads a place from its name and its value.
    pub(super) fn of(name: &[u8], value: &[u8], names: &Names) -> Option<Place> {
        let seat = names.read(name)?.seat;
        let value = String::from_utf8_lossy(value);
        let (kind, owner) = parts(&value);
        Some(Place {
            name: name.to_vec(),
            owner: owner.unwrap_or(&seat).to_owned(),
            seat,
            create_revision: 0,
            mod_revision: 0,
            lease: 0,
            kind,
            kept: owner.unwrap_or(&value) == KEPT_PLACE,
        })
    }

    /// The owner that is shown as the holder.
    fn holder(&self) -> &str {
        if self.kept { KEPT } else { &self.owner }
    }
}

/// The owners of places, in order, and the result of the transaction.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QueueState {
    pub(super) places: Vec<Place>,
    /// The revision of the transaction, if it wrote something.
    pub(super) written: Option<i64>,
    /// The place existed before the transaction.
    pub(super) existed: bool,
}

impl QueueState {
    /// From a transaction that wrote nothing.
    pub(super) fn read(found: &GetResponse, names: &Names) -> Self {
        QueueState::of(found.kvs().iter().filter_map(|kv| Place::read(kv, names)).collect())
    }

    /// The oldest place comes first.
    pub(super) fn of(places: Vec<Place>) -> Self {
        QueueState { places, written: None, existed: false }
    }

    /// The holders of the lock. The others wait.
    pub(super) fn holders(&self) -> &[Place] {
        let Some(kind) = self.places.first().map(|first| first.kind) else { return &[] };
        let most = if kind == LockKind::Shared { usize::MAX } else { room(kind) };
        let alike = self.places.iter().take(most).take_while(|place| place.kind == kind);
        self.places.get(..alike.count()).unwrap_or_default()
    }

    /// How many places are before the place of this owner that lives with this lease. `None`: it has none. A place that
    /// it had in an earlier session does not count: it ends with that session, and the next place then holds the lock.
    pub(super) fn position(&self, owner: &str, lease: i64) -> Option<usize> {
        self.places.iter().position(|place| place.lease == lease && place.owner == owner)
    }

    /// Whether a place has this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.places.iter().any(|place| place.name == name.as_bytes())
    }

    /// The places among the first `behind` that exclude this kind. Only writers exclude a reader.
    pub(super) fn in_the_way(&self, behind: usize, kind: LockKind) -> impl Iterator<Item = &Place> {
        let is_in_the_way = move |place: &&Place| kind != LockKind::Shared || place.kind != kind;
        self.places.iter().take(behind).filter(is_in_the_way)
    }

    /// The kind that the lock is in use as, if it is not compatible with this kind.
    pub(super) fn other_kind(&self, kind: LockKind) -> Option<LockKind> {
        self.places.iter().map(|place| place.kind).find(|other| !go_together(kind, *other))
    }

    /// Whether there is room for one more holder of this kind, if no other owner comes first.
    pub(super) fn has_room(&self, kind: LockKind) -> bool {
        self.places.len() < room(kind) && self.places.iter().all(|place| place.kind == kind)
    }

    /// The places that exclude `owner`, which is after this many others.
    pub(super) fn busy(&self, owner: &str, behind: usize) -> Busy {
        // Its own place is one of an earlier session, which the server has not ended yet.
        let first = self.places.first().map(Place::holder).filter(|first| *first != owner);
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
        let lock = holders.iter().fold(lock, |lock, place| lock.holder(place.holder(), None));
        Some(others.iter().take(MOST_NAMED).fold(lock, |lock, place| lock.waiter(&*place.owner)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [LockKind; 4] = [
        LockKind::Exclusive,
        LockKind::Shared,
        LockKind::Limited { max_holders: 3 },
        LockKind::Limited { max_holders: 30 },
    ];

    fn place(number: usize, value: &str) -> Place {
        let names = Names::below("r");
        Place::of(names.place("k", &format!("o{number}")).as_bytes(), value.as_bytes(), &names)
            .expect("a place")
    }

    /// Programs of earlier versions write no owner into a value.
    fn seen(values: &[&str]) -> QueueState {
        QueueState::of(values.iter().enumerate().map(|(number, value)| place(number, value)).collect())
    }

    #[test]
    fn a_value_says_the_kind_and_the_owner() {
        for (number, one) in KINDS.into_iter().enumerate() {
            let (own, kept) = (place(0, &value(one, "dl1:c:7")), place(0, &kept_value(one)));
            assert_eq!((own.kind, &*own.owner, &*own.seat, own.kept), (one, "dl1:c:7", "o0", false));
            assert_eq!((kept.kind, kept.holder()), (one, KEPT));
            let together = |other| go_together(one, other);
            let expected = if number < 2 { [true, true, false, false] } else { [false; 4] };
            assert!(
                KINDS
                    .map(together)
                    .iter()
                    .zip(expected)
                    .enumerate()
                    .all(|(other, (said, expected))| { *said == (expected || other == number) })
            );
        }
        for value in ["", "kept", "anything", "-3 holders", "0 holders", "99999999999 holders"] {
            let place = place(0, value);
            assert_eq!((place.kind, &*place.owner), (LockKind::Exclusive, "o0"), "{value}");
        }
    }

    #[test]
    fn those_hold_the_lock_whom_nobody_older_keeps_out() {
        for (values, holders) in [
            (&["x", "x", "s"][..], 1),
            (&["kept", "x"], 1),
            (&["s", "s kept", "x", "s"], 2),
            (&["2 holders kept", "2 holders", "2 holders"], 2),
            (&["9 holders", "9 holders"], 2),
            // An earlier version created this place.
            (&["9 holders", "x"], 1),
            (&[], 0),
        ] {
            assert_eq!(seen(values).holders().len(), holders, "{values:?}");
        }
    }

    #[test]
    fn a_reader_waits_for_writers_alone() {
        let seen = seen(&["s", "x", "s", "x", "s"]);
        let owners = |kind| seen.in_the_way(4, kind).map(|place| &*place.owner).collect::<Vec<_>>();
        assert_eq!(owners(LockKind::Shared), ["o1", "o3"]);
        assert_eq!(owners(LockKind::Exclusive), ["o0", "o1", "o2", "o3"]);
    }

    /// The owner has asked again in a new session, and the place of the former one lives for longer than it counts.
    #[test]
    fn the_place_of_a_former_session_is_one_of_the_places_before_the_owner() {
        let places = ["2 holders me", "2 holders a", "2 holders b", "2 holders me"];
        let mut seen = seen(&places);
        (seen.places[0].lease, seen.places[3].lease) = (1, 2);
        assert_eq!(
            (seen.position("me", 1), seen.position("me", 2), seen.position("me", 3)),
            (Some(0), Some(3), None)
        );
        assert_eq!(seen.busy("me", 3), Busy::by_somebody().behind_others());
        assert_eq!(seen.busy("b", 2), Busy::by("me"));
        assert_eq!(QueueState::of(Vec::new()).busy("me", 0), Busy::by_somebody());
    }

    #[test]
    fn there_is_room_for_another_one_of_the_same_kind_and_limit() {
        let two = LockKind::Limited { max_holders: 2 };
        for (values, has_room) in [
            (&["2 holders"][..], true),
            (&["2 holders kept"], true),
            (&["2 holders", "2 holders"], false),
            (&["3 holders"], false),
            (&["x"], false),
        ] {
            assert_eq!(seen(values).has_room(two), has_room, "{values:?}");
        }
        assert_eq!(seen(&["3 holders"]).other_kind(two), Some(KINDS[2]));
        assert_eq!(seen(&["2 holders"]).other_kind(two), None);
        assert_eq!(seen(&["s", "x"]).other_kind(LockKind::Exclusive), None);
    }
}
