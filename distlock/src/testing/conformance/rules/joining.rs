//! A holder that joins others in a shared or limited lock, and is left alone in it.

use std::time::Duration;

use super::lease::SHORT;
use crate::testing::conformance::Place;
use crate::testing::eventually;
use crate::{LockError, LockRequest};

/// The kind of lock of a request.
type LockKind = fn(LockRequest) -> LockRequest;

const EXCLUSIVE: LockKind = |request| request;
const SHARED: LockKind = LockRequest::shared;
const LIMITED: LockKind = |request| request.max_holders(2);

/// The fate of the first request.
#[derive(Clone, Copy)]
enum First {
    /// Its lease ends, not renewed and not released.
    Ends,
    /// It is released, and its place stays taken for a while.
    IsKept,
}

/// The request that joins holds it for much longer. None of these `others` gets the lock meanwhile.
async fn outlives(place: &Place, kind: LockKind, first: First, others: &[LockKind]) {
    let (one, other) = (place.manager().await, place.manager().await);
    let request = kind(one.lock("k"));
    let request = match first {
        First::Ends => request.ttl(SHORT * 3).no_renew(),
        First::IsKept => request.min_hold(SHORT * 3),
    };
    let before = request.acquire().await.unwrap();
    let joined = kind(other.lock("k")).ttl(Duration::from_secs(600)).no_wait().acquire().await.unwrap();
    match first {
        First::Ends => drop(before.lost().await),
        First::IsKept => before.release().await.unwrap(),
    }
    let is_alone = async || one.inspect("k").await.unwrap().is_none_or(|lock| lock.holders.len() == 1);
    eventually("the first has gone", is_alone).await;
    for other_kind in others {
        let error = other_kind(one.lock("k")).no_wait().acquire().await.unwrap_err();
        assert!(error.is_busy() || matches!(error, LockError::WrongKind { .. }), "{error:?}");
    }
    let shown = one.inspect("k").await.unwrap().expect("one holds it");
    assert_eq!(shown.holders.len(), 1, "{shown:?}");
    joined.check().unwrap();
    joined.release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn a_reader_that_joins_outlives_the_first_one(place: Place) {
    outlives(&place, SHARED, First::Ends, &[EXCLUSIVE]).await;
}

pub async fn a_holder_that_joins_outlives_the_first_one(place: Place) {
    outlives(&place, LIMITED, First::Ends, &[EXCLUSIVE, |request| request.max_holders(3)]).await;
}

pub async fn who_joins_keeps_other_kinds_out_when_the_first_has_gone(place: Place) {
    outlives(&place, SHARED, First::Ends, &[LIMITED]).await;
    outlives(&place, LIMITED, First::Ends, &[SHARED]).await;
}

pub async fn who_joins_outlives_a_min_hold(place: Place) {
    outlives(&place, SHARED, First::IsKept, &[EXCLUSIVE, LIMITED]).await;
    outlives(&place, LIMITED, First::IsKept, &[EXCLUSIVE, SHARED]).await;
}
