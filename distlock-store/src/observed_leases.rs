//! Leases in a store that has no clock.

use std::collections::HashMap;
use std::time::Duration;

use crate::clock;
use crate::kit::sync::Locked;
use crate::time::Time;

/// The largest number of remembered leases. If there are more, all are forgotten at once, and each then lasts for its
/// ttl again.
const MOST: usize = 100_000;

/// Counts the leases of other holders, for a store without a clock, such as S3 or DynamoDB.
///
/// In such a store, a condition such as "the item has expired" compares the wall clocks of two clients. They may differ
/// by any amount, so there can be two holders. Instead, each write gives the item a new version. A client that finds
/// the item counts its ttl by its own monotonic clock, from the moment when it first saw this version. After the ttl,
/// it takes the item by a write on condition that the version has not changed. This write fails if the holder has
/// renewed the lease, so a late reader never takes a lock that is held.
///
/// **A version never returns, even after the item was deleted.** Otherwise the lease of a later holder would count from
/// the first look at an earlier one. A number alone begins again with a new item, so the version below also names the
/// owner.
///
/// Other clients see a lease later than it is written, so for them it lasts a little longer than its holder relies on
/// it.
///
/// ```
/// use std::collections::HashMap;
/// use std::time::Duration;
/// use distlock::store::{AcquireReply, Busy, ObservedLeases};
///
/// #[derive(Clone)]
/// struct Item {
///     owner: String,
///     ttl: Duration,
///     version: u64,
/// }
///
/// /// The key is acquired if it is free, or if its lease, as this process has seen it, is over.
/// fn acquire(items: &mut HashMap<String, Item>, seen: &ObservedLeases, key: &str, owner: &str) -> AcquireReply {
///     let found = items.get(key).cloned(); // read
///     if let Some(item) = found.as_ref().filter(|item| item.owner != owner) {
///         let version = format!("{} {}", item.owner, item.version);
///         let left = seen.remaining(key, &version, item.ttl);
///         if !left.is_zero() {
///             return AcquireReply::Busy(Busy::ours(&*item.owner).remaining(left));
///         }
///     }
///     // Written on condition that owner and version are still those that were read, or that there is no item.
///     let version = found.as_ref().map_or(0, |item| item.version) + 1;
///     items.insert(key.to_owned(), Item { owner: owner.to_owned(), ttl: Duration::from_secs(10), version });
///     seen.forget(key);
///     match found.is_some_and(|item| item.owner == owner) {
///         true => AcquireReply::AlreadyHeld { fence: None },
///         false => AcquireReply::Acquired { fence: None },
///     }
/// }
///
/// let (mut items, seen) = (HashMap::new(), ObservedLeases::new());
/// assert!(acquire(&mut items, &seen, "order:42", "dl1:one:1").is_acquired());
/// assert!(!acquire(&mut items, &seen, "order:42", "dl1:other:1").is_acquired());
/// ```
#[derive(Debug, Default)]
pub struct ObservedLeases(Locked<HashMap<String, Seen>>);

/// A version, and the end of its lease.
#[derive(Debug)]
struct Seen {
    version: String,
    end: Time,
}

impl ObservedLeases {
    /// Nothing was seen yet.
    ///
    /// ```
    /// let seen = distlock::store::ObservedLeases::new();
    /// # drop(seen);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        ObservedLeases::default()
    }

    /// The remaining time of the lease of an item with this version and this ttl. Zero: it is over.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let seen = distlock::store::ObservedLeases::new();
    /// let ttl = Duration::from_secs(10);
    /// assert_eq!(seen.remaining("order:42", "version 7", ttl), ttl);
    /// assert!(seen.remaining("order:42", "version 7", ttl) <= ttl); // it counts from the first look
    /// ```
    pub fn remaining(&self, key: &str, version: &str, ttl: Duration) -> Duration {
        let now = clock::now();
        let mut all = self.0.lock();
        if let Some(seen) = all.get(key).filter(|seen| seen.version == version) {
            return seen.end.duration_since(now);
        }
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(key.to_owned(), Seen { version: version.to_owned(), end: now.after(ttl) });
        ttl
    }

    /// The key is free, or held by this process.
    ///
    /// ```
    /// let seen = distlock::store::ObservedLeases::new();
    /// seen.forget("order:42");
    /// ```
    pub fn forget(&self, key: &str) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    /// The remaining time this many seconds after a fixed moment. Wall clocks do not matter.
    fn at(seconds: u64, leases: &ObservedLeases, version: &str) -> u64 {
        let now = Time(0).after(Duration::from_secs(1_000 + seconds));
        clock::simulated::at(now, || leases.remaining("k", version, TTL).as_secs())
    }

    #[test]
    fn a_lease_counts_from_the_first_look_at_its_version() {
        let leases = ObservedLeases::new();
        assert_eq!([at(0, &leases, "a"), at(4, &leases, "a"), at(9, &leases, "a")], [10, 6, 1]);
        assert_eq!([at(10, &leases, "a"), at(60, &leases, "a")], [0, 0]);
    }

    #[test]
    fn a_renewal_is_another_version_and_begins_anew() {
        let leases = ObservedLeases::new();
        assert_eq!([at(0, &leases, "a"), at(9, &leases, "b"), at(12, &leases, "b")], [10, 10, 7]);
        // A value that was read before the renewal, and comes late, does not end the lease.
        assert_eq!([at(13, &leases, "a"), at(14, &leases, "b")], [10, 10]);
    }

    /// The number of the version begins again with every item.
    #[test]
    fn the_lease_of_another_owner_begins_anew() {
        let leases = ObservedLeases::new();
        assert_eq!([at(0, &leases, "dl1:a:1 1"), at(10, &leases, "dl1:b:1 1")], [10, 10]);
    }

    #[test]
    fn what_was_forgotten_begins_anew() {
        let leases = ObservedLeases::new();
        at(0, &leases, "a");
        leases.forget("k");
        assert_eq!(at(8, &leases, "a"), 10);
    }

    #[test]
    fn no_more_are_remembered_than_fit() {
        let leases = ObservedLeases::new();
        for number in 0..=MOST {
            leases.remaining(&number.to_string(), "a", TTL);
        }
        assert!(leases.0.lock().len() <= MOST);
    }
}
