//! Shared and limited locks on the same keys.

use std::time::Duration;

use crate::testing::conformance::Place;
use crate::{LockError, LockRequest};

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

pub async fn a_reentrant_call_gets_no_more_than_its_section_has(place: Place) {
    type As = fn(LockRequest) -> LockRequest;
    const KINDS: [(&str, As); 3] = [
        ("exclusive", |request| request),
        ("shared", |request| request.shared()),
        ("limited", |request| request.max_holders(2)),
    ];
    let manager = place.manager().await;
    for (section, outer) in KINDS {
        for (call, inner) in KINDS {
            let again = || inner(manager.lock("k").reentrant().no_wait());
            let section_of = outer(manager.lock("k")).run(async |_| again().run(async |_| ()).await);
            let nested = section_of.await.unwrap();
            let enters = section == call || (section, call) == ("exclusive", "shared");
            assert_eq!(nested.is_ok(), enters, "{call} in {section}: {nested:?}");
        }
    }
    place.is_clean("k").await;
}
