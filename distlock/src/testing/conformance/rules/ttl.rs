//! Leases that expire in the store, each with its own ttl.

use std::time::Duration;

use crate::testing::conformance::Place;

pub async fn inspect_shows_the_remaining_time(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let ttl = Duration::from_secs(20);
    let guard = one.lock("k").ttl(ttl).acquire().await.unwrap();
    let info = other.inspect("k").await.unwrap().expect("it is held");
    let remaining = info.remaining.expect("a lease has an end");
    // A store may keep it for some seconds longer than the lease, as Memcached does.
    assert!(remaining <= ttl + Duration::from_secs(5) && remaining > ttl / 2, "{info:?}");
    guard.release().await.unwrap();
}
