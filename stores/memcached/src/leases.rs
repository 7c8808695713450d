//! The items that this process has written, so that it can change them without reading them first.

use std::collections::HashMap;
use std::time::Duration;

use super::meta::{Cas, Ttl};
use distlock_store::clock;
use distlock_store::engine::Time;

/// How many items are remembered before expired ones are forgotten.
const MOST_KEPT: usize = 1_024;

/// The items of this process, by their keys.
#[derive(Debug, Default)]
pub(super) struct Leases {
    leases: HashMap<String, Lease>,
    tidy_at: usize,
}

/// An item, as this process last wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lease {
    owner: String,
    cas: Cas,
    /// It does not expire before this time.
    until: Time,
}

impl Leases {
    /// Records that the item was written.
    pub(super) fn wrote(&mut self, key: &str, owner: &str, cas: Cas, Ttl { until, .. }: Ttl) {
        let now = clock::now();
        if self.leases.len() >= self.tidy_at.max(MOST_KEPT) {
            self.leases.retain(|_, lease| lease.until > now);
            self.tidy_at = self.leases.len() * 2;
        }
        let lease = Lease { owner: owner.to_owned(), cas, until };
        self.leases.insert(key.to_owned(), lease);
    }

    /// The version of the item and the minimum of its remaining time, if this owner wrote it last.
    pub(super) fn of(&self, key: &str, owner: &str) -> Option<(Cas, Duration)> {
        let lease = self.leases.get(key).filter(|lease| lease.owner == owner)?;
        Some((lease.cas, lease.until.duration_since(clock::now())))
    }

    /// It no longer belongs to the owner.
    pub(super) fn ended(&mut self, key: &str, owner: &str) {
        if self.leases.get(key).is_some_and(|lease| lease.owner == owner) {
            self.leases.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_that_have_ended_are_forgotten() {
        let mut leases = Leases::default();
        let minute = Ttl::at_least(Duration::from_secs(60), clock::now(), Duration::ZERO);
        leases.wrote("held", "me", 7, minute);
        for number in 0..MOST_KEPT * 3 {
            let ended = Lease { owner: "me".to_owned(), cas: 1, until: clock::now() };
            leases.leases.insert(number.to_string(), ended);
        }
        leases.wrote("other", "me", 8, minute);
        assert_eq!(leases.leases.len(), 2);
        assert!(
            leases.of("held", "me").is_some_and(|(cas, left)| cas == 7 && left > Duration::from_secs(50))
        );
        assert_eq!(leases.of("held", "somebody else"), None);
        leases.ended("held", "somebody else");
        leases.ended("other", "me");
        assert_eq!((leases.leases.len(), leases.of("other", "me")), (1, None));
    }
}
