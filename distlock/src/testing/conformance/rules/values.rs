//! Watchers read the text that a leader publishes.

use std::time::Duration;

use tokio::task::JoinHandle;

use super::leader;
use crate::leader::{Candidate, Lead, LeaderWatch, Leadership};
use crate::testing::conformance::Place;
use crate::{LockError, LockManager};

/// Much longer than any test runs: no candidate leads because a lease has expired.
const LONG: Duration = Duration::from_secs(3_600);

/// Leads until it is stopped. Returns when its term has begun.
async fn lead(candidate: Candidate) -> (JoinHandle<Result<(), LockError>>, Lead) {
    let (work, mut terms) = leader::lead(&candidate);
    (work, leader::next(&mut terms).await)
}

/// The next news that names a leader other than `former`, with everything that is known of it.
async fn next_leader(watch: &mut LeaderWatch, former: &str) -> (String, String) {
    let follow = async {
        loop {
            if let Leadership::Elsewhere { owner, value: Some(value), .. } = watch.changed().await
                && owner != former
            {
                return (owner, value);
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), follow).await.expect("it is seen in time")
}

async fn published(manager: &LockManager, office: &str) -> Option<String> {
    manager.inspect(office).await.unwrap()?.holders.first()?.value.clone()
}

pub async fn watchers_see_each_leader_once_in_order_with_its_value(place: Place) {
    let (watcher, mut former) = (place.manager().await, String::new());
    let candidate = watcher.leader("l");
    let mut watch = candidate.watch();
    assert_eq!(watch.changed().await, Leadership::Vacant);
    let one = place.manager().await;
    // If one process has all managers, it leads itself, as another candidate.
    for (count, value) in (1..).zip(["10.0.0.1:80", "10.0.0.2:80", "10.0.0.1:80"]) {
        let (work, lead) = lead(one.leader("l").ttl(LONG).value(value)).await;
        let (owner, seen) = next_leader(&mut watch, &former).await;
        assert_eq!((&*owner, &*seen), (&*lead.owner(), value));
        assert_eq!(watch.transitions(), count);
        former = owner;
        work.abort();
        place.is_clean("l").await;
    }
}

pub async fn a_value_is_that_of_one_term_and_any_text(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    for value in ["", "a b\n%41 \u{e4}\u{1f512} \\ ' \"", &"v".repeat(1024)] {
        let (work, _lead) = lead(one.leader("l").ttl(LONG).value(value)).await;
        assert_eq!(published(&other, "l").await.as_deref(), Some(value));
        work.abort();
        place.is_clean("l").await;
        let (work, _lead) = lead(other.leader("l").ttl(LONG)).await;
        assert_eq!(published(&one, "l").await, None, "it is the former leader's");
        work.abort();
        place.is_clean("l").await;
    }
}

pub async fn a_value_that_is_too_long_is_refused(place: Place) {
    let manager = place.manager().await;
    for value in ["v".repeat(1025), "\0".to_owned()] {
        let refused = manager.leader("l").value(value).run(async |_| ()).await;
        assert!(matches!(refused, Err(LockError::InvalidOptions { .. })), "{refused:?}");
    }
    place.is_clean("l").await;
}
