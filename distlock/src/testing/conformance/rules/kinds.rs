//! Shared and limited locks on the same keys.

use std::time::Duration;

use crate::LockError;
use crate::testing::conformance::Place;

pub async fn shared_and_limited_locks_do_not_mix(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let _guard = one.lock("k").max_holders(2).acquire().await.unwrap();
    let error = other.lock("k").shared().wait(Duration::from_millis(200)).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::WrongKind { .. }), "{error:?}");
}

pub async fn a_lock_of_another_kind_among_them_is_named_and_nothing_is_kept(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let limited = one.lock("b").max_holders(2).acquire().await.unwrap();
    for request in [other.lock_all(["a", "b", "c"]), other.lock_all(["a", "b", "c"]).shared()] {
        let error = request.acquire().await.unwrap_err();
        assert!(matches!(&error, LockError::WrongKind { key, .. } if key.as_str() == "b"), "{error:?}");
    }
    limited.release().await.unwrap();
    for key in ["a", "b", "c"] {
        place.is_clean(key).await;
    }
}
