//! The contenders with shared and limited locks.

use crate::Result;
use crate::locks::{Distlock, Locks, contenders};

/// The holders of a limited lock.
pub(crate) const MOST: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Exclusive,
    Shared,
    /// At most [`MOST`] holders.
    Limited,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Exclusive, Kind::Shared, Kind::Limited];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::Exclusive => "write",
            Kind::Shared => "read",
            Kind::Limited => "limited",
        }
    }

    pub(crate) fn key(self) -> &'static str {
        if self == Kind::Limited { "bench/limited" } else { "bench/readers" }
    }

    /// Selects, from the places before an owner's place in a queue (the oldest first), those to watch until one of them
    /// is deleted. If there are none, the owner holds the lock. The name of a place begins with the word of its kind.
    pub(crate) fn watched(self, before: &[String]) -> &[String] {
        let last = |count: usize| &before[before.len().saturating_sub(count)..];
        match self {
            Kind::Exclusive => last(1),
            Kind::Shared => {
                let writer = before.iter().rposition(|name| is_place_of(Kind::Exclusive, name));
                writer.map_or(&[], |at| &before[at..=at])
            }
            // Any of these places may be the first to be deleted.
            Kind::Limited if before.len() >= MOST as usize => last(MOST as usize),
            Kind::Limited => &[],
        }
    }
}

fn is_place_of(kind: Kind, name: &str) -> bool {
    name.rsplit('/').next().is_some_and(|place| place.starts_with(kind.word()))
}

/// A contender with locks of all kinds.
pub(crate) trait Kinds: Locks {
    fn acquire_as(&self, key: &str, kind: Kind) -> impl Future<Output = Result<Self::Guard>> + Send;
}

impl Kinds for Distlock {
    async fn acquire_as(&self, key: &str, kind: Kind) -> Result<Self::Guard> {
        let request = self.0.lock(key).wait_forever();
        let request = match kind {
            Kind::Exclusive => request,
            Kind::Shared => request.shared(),
            Kind::Limited => request.max_holders(MOST),
        };
        Ok(request.acquire().await?)
    }
}

contenders! {
    Distlock = "distlock",
    ZooKeeperPlaces = "raw recipe, sequential nodes",
    Curator = "Curator's recipes, Java",
    EtcdQueue = "raw queue, one standing watch",
    PostgresAdvisory = "advisory locks of a session",
    MariaDbCount = "raw row with a count, pauses of 0.5 to 1.5 ms",
    MariaDbCountCalm = "raw row with a count, distlock's pauses",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_watches_what_can_let_it_in() {
        let before = ["a/write-1", "a/read-2", "a/write-3", "a/read-4"].map(str::to_owned);
        assert_eq!(Kind::Exclusive.watched(&before), ["a/read-4"]);
        assert_eq!(Kind::Shared.watched(&before), ["a/write-3"]);
        assert_eq!(Kind::Shared.watched(&before[1..2]), [""; 0], "readers do not wait for readers");
        assert_eq!(Kind::Exclusive.watched(&[]), [""; 0]);
        let limited = ["limited-1", "limited-2", "limited-3"].map(str::to_owned);
        assert_eq!(Kind::Limited.watched(&limited), ["limited-2", "limited-3"]);
        assert_eq!(Kind::Limited.watched(&limited[..1]), [""; 0], "there is room for a second one");
    }
}
