//! Places that owners of this process have taken over. The key of such a place names the owner that created it, so the
//! place keeps its order in the queue. Its value names the present owner.

use std::collections::HashMap;
use std::sync::Arc;

use etcd_client::{Compare, CompareOp};

use super::keys::Names;
use super::places::{TAKEN_OVER, taken_over_value, value};
use distlock_store::LockKind;

/// The places that owners of this process have taken over, by key and owner. An entry is made before the request is
/// sent, so that a take-over whose reply is lost can be undone. It is removed when a reply says that the place was
/// released, or is not held. An entry that stays does no harm, because an owner is never used twice.
#[derive(Debug, Default)]
pub(super) struct TakenOver(HashMap<(Arc<str>, String), String>);

impl TakenOver {
    pub(super) fn take(&mut self, key: &Arc<str>, owner: &str, place: String) {
        self.0.insert((key.clone(), owner.to_owned()), place);
    }

    pub(super) fn forget(&mut self, key: &Arc<str>, owner: &str) {
        if !self.0.is_empty() {
            self.0.remove(&(key.clone(), owner.to_owned()));
        }
    }

    pub(super) fn clear(&mut self) {
        self.0 = HashMap::new();
    }

    /// The place that an owner of this process has, or would have.
    pub(super) fn seat(&self, names: &Names, key: &Arc<str>, owner: &str) -> Seat {
        let place = match self.0.is_empty() {
            true => None,
            false => self.0.get(&(key.clone(), owner.to_owned())).cloned(),
        };
        match place {
            Some(place) => Seat { place, owner: Some(owner.to_owned()) },
            None => Seat { place: names.place(key, owner), owner: None },
        }
    }
}

/// The place of an owner, and its required value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    /// The name of its key.
    pub(super) place: String,
    /// Its owner, if another owner created it.
    owner: Option<String>,
}

impl Seat {
    /// The value of the place while its owner has it.
    pub(super) fn value(&self, kind: LockKind) -> String {
        self.owner.as_deref().map_or_else(|| value(kind), taken_over_value)
    }

    /// The place exists, and no other owner has taken it over.
    pub(super) fn is_its_own(&self) -> Compare {
        match &self.owner {
            Some(owner) => Compare::value(&*self.place, CompareOp::Equal, taken_over_value(owner)),
            // All other values are smaller.
            None => Compare::value(&*self.place, CompareOp::Less, TAKEN_OVER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_stands_at_its_own_place_unless_it_has_taken_one_over() {
        let (names, key, mut taken) = (Names::below("r"), Arc::from("k"), TakenOver::default());
        let own = taken.seat(&names, &key, "next");
        assert_eq!((&*own.place, &*own.value(LockKind::Exclusive)), ("r/locks/k/next", "x"));
        taken.take(&key, "next", names.place("k", "first"));
        let seat = taken.seat(&names, &key, "next");
        assert_eq!((&*seat.place, &*seat.value(LockKind::Exclusive)), ("r/locks/k/first", "x next"));
        assert_eq!(taken.seat(&names, &Arc::from("l"), "next").place, "r/locks/l/next");
        taken.forget(&key, "next");
        assert_eq!(taken.seat(&names, &key, "next"), own);
    }

    #[test]
    fn what_was_taken_over_comes_after_all_other_values() {
        for kind in [LockKind::Exclusive, LockKind::Shared, LockKind::Limited { max_holders: 9 }] {
            assert!(*value(kind) < *TAKEN_OVER && *crate::places::kept_value(kind) < *TAKEN_OVER);
        }
        assert!(*taken_over_value("") >= *TAKEN_OVER && *taken_over_value("dl1:c:7") > *TAKEN_OVER);
    }
}
