//! Several keys in one request: all or nothing.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::testing::conformance::Place;
use crate::testing::conformance::place::Tally;
use crate::testing::{drop_after, eventually};
use crate::{Guard, LockManager, LockRequest};
use tokio::task::JoinSet;

/// Much longer than any test runs: a lock that is gone before has been released, and has not expired.
pub(super) const LONG: Duration = Duration::from_secs(600);

pub async fn all_of_them_are_held_and_all_are_released(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let guard = one.lock_all(["a", "b", "c"]).acquire().await.unwrap();
    for key in ["a", "b", "c"] {
        assert!(other.lock(key).try_acquire().await.unwrap().is_none(), "{key}");
    }
    guard.release().await.unwrap();
    for key in ["a", "b", "c"] {
        place.is_clean(key).await;
    }
}

pub async fn one_busy_key_keeps_all_the_others_free(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let guard = one.lock("b").acquire().await.unwrap();
    let error = other.lock_all(["a", "b", "c"]).no_wait().acquire().await.unwrap_err();
    assert!(error.is_busy(), "{error:?}");
    for key in ["a", "c"] {
        one.lock(key).wait(Duration::from_secs(20)).acquire().await.unwrap().release().await.unwrap();
    }
    guard.release().await.unwrap();
}

pub async fn while_one_is_awaited_those_before_it_are_held_and_those_behind_it_are_free(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let guard = one.lock("b").acquire().await.unwrap();
    let request = other.lock_all(["c", "a", "b"]).wait(LONG);
    let waiter = tokio::spawn(request.acquire());
    place.until_waiting(&one, &other, "b", 1).await;
    // If waiting is only visible in this process, it may be visible before the command was executed.
    let is_held = async |key| one.inspect(key).await.unwrap().is_some();
    eventually("the first is held", async || is_held("a").await && !is_held("c").await).await;
    assert!(one.lock("a").try_acquire().await.unwrap().is_none());
    one.lock("c").no_wait().acquire().await.unwrap().release().await.unwrap();
    guard.release().await.unwrap();
    let all = waiter.await.unwrap().unwrap();
    assert_eq!(all.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    all.release().await.unwrap();
    for key in ["a", "b", "c"] {
        place.is_clean(key).await;
    }
}

pub async fn keys_that_are_in_use_in_this_process_are_awaited_in_order_too(place: Place) {
    let manager = place.manager().await;
    for busy in ["a", "b", "c"] {
        let guard = manager.lock(busy).acquire().await.unwrap();
        let waiter = tokio::spawn(manager.lock_all(["a", "b", "c"]).wait(LONG).acquire());
        place.until_waiting(&manager, &manager, busy, 1).await;
        guard.release().await.unwrap();
        waiter.await.unwrap().unwrap().release().await.unwrap();
    }
    place.is_clean("a").await;
}

/// More polls than any of these futures needs.
const MANY: usize = 200;

/// While the request waits for `b`, for this long at least, it has `a` already. Returns the guard, and a time before
/// `b` was free.
pub(super) async fn while_the_second_is_awaited(
    place: &Place,
    one: &LockManager,
    request: LockRequest,
    at_least: Duration,
) -> (Guard, Instant) {
    let holder = place.manager().await;
    let busy = holder.lock("b").acquire().await.unwrap();
    let waiter = tokio::spawn(request.wait(LONG).acquire());
    place.until_waiting(&holder, one, "b", 1).await;
    tokio::time::sleep(at_least).await;
    let before = Instant::now();
    busy.release().await.unwrap();
    (waiter.await.unwrap().unwrap(), before)
}

pub async fn max_hold_counts_from_the_guard(place: Place) {
    let one = place.manager().await;
    let short = Duration::from_secs(2);
    let request = one.lock_all(["a", "b"]).max_hold(short);
    let (guard, before) = while_the_second_is_awaited(&place, &one, request, short / 4).await;
    assert!(guard.lost().await.is_lost());
    assert!(before.elapsed() >= short, "{:?}", before.elapsed());
}

pub async fn a_guard_that_is_not_renewed_lives_for_its_ttl(place: Place) {
    let one = place.manager().await;
    let ttl = Duration::from_millis(900);
    let request = one.lock_all(["a", "b"]).ttl(ttl).no_renew();
    let (guard, before) = while_the_second_is_awaited(&place, &one, request, ttl * 4 / 3).await;
    assert!(guard.lost().await.is_lost());
    assert!(before.elapsed() >= ttl / 2, "{:?}", before.elapsed());
}

/// The future has `a`, is granted `b`, and is not polled.
pub async fn what_is_in_hand_is_given_back_if_nobody_looks_after_it(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let busy = other.lock("b").acquire().await.unwrap();
    let mut request = pin!(one.lock_all(["a", "b"]).ttl(Duration::from_millis(1_500)).wait(LONG).acquire());
    let waiting = async {
        place.until_waiting(&other, &one, "b", 1).await;
    };
    tokio::select! {
        biased;
        guard = &mut request => panic!("{guard:?}"),
        () = waiting => {}
    }
    busy.release().await.unwrap();
    for key in ["a", "b"] {
        other.lock(key).wait(Duration::from_secs(30)).acquire().await.unwrap().release().await.unwrap();
    }
    // It continues as if nothing had happened.
    request.await.unwrap().release().await.unwrap();
}

pub async fn an_acquire_may_be_dropped_anywhere(place: Place) {
    let manager = place.manager().await;
    for polls in 1..MANY {
        let acquire = manager.lock_all(["a", "b", "c"]).ttl(LONG).acquire();
        let finished = drop_after(polls, acquire).await.is_some();
        for key in ["a", "b", "c"] {
            place.is_clean(key).await;
        }
        if finished {
            return;
        }
    }
    panic!("not finished after {MANY} polls");
}

pub async fn a_waiting_acquire_may_be_dropped(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    for busy in ["a", "b", "c"] {
        let guard = one.lock(busy).ttl(LONG).acquire().await.unwrap();
        let waiter = tokio::spawn(other.lock_all(["a", "b", "c"]).ttl(LONG).wait(LONG).acquire());
        place.until_waiting(&one, &other, busy, 1).await;
        waiter.abort();
        assert!(waiter.await.unwrap_err().is_cancelled());
        place.until_nobody_waits(&one, &other, busy).await;
        guard.release().await.unwrap();
        for key in ["a", "b", "c"] {
            place.is_clean(key).await;
        }
    }
}

pub async fn a_release_may_be_dropped_anywhere(place: Place) {
    let manager = place.manager().await;
    for polls in 0..MANY {
        let guard = manager.lock_all(["a", "b", "c"]).ttl(LONG).acquire().await.unwrap();
        let finished = drop_after(polls, guard.release()).await.is_some();
        for key in ["a", "b", "c"] {
            place.is_clean(key).await;
        }
        if finished {
            return;
        }
    }
    panic!("not finished after {MANY} polls");
}

pub async fn the_order_of_the_keys_and_repetitions_do_not_matter(place: Place) {
    let manager = place.manager().await;
    manager.lock_all(["b", "a", "b", "a"]).acquire().await.unwrap().release().await.unwrap();
    place.is_clean("a").await;
}

pub async fn callers_with_overlapping_keys_do_not_wait_in_a_circle(place: Place) {
    const ROUNDS: u64 = 10;
    let sets = [["a", "b"], ["b", "c"], ["c", "a"], ["b", "a"]];
    let tally = Arc::new([Tally::default(), Tally::default(), Tally::default()]);
    let mut tasks = JoinSet::new();
    for set in sets {
        let (manager, tally) = (place.manager().await, tally.clone());
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let guard = manager.lock_all(set).wait(Duration::from_secs(60)).acquire().await.unwrap();
                for key in set {
                    tally[usize::from(key.as_bytes()[0] - b'a')].increment().await;
                }
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    assert_eq!([0, 1, 2].map(|index| tally[index].value()), [3 * ROUNDS, 3 * ROUNDS, 2 * ROUNDS]);
}

pub async fn no_key_at_all_or_a_bad_one_is_invalid(place: Place) {
    let manager = place.manager().await;
    assert!(manager.lock_all(Vec::<String>::new()).acquire().await.is_err());
    let error = manager.lock_all(["a", ""]).acquire().await.unwrap_err();
    assert!(matches!(error, crate::LockError::InvalidKey { .. }), "{error:?}");
    assert!(
        manager.lock_all(["a", "b"]).fenced().acquire().await.is_err(),
        "no single token orders several keys"
    );
    place.is_clean("a").await;
}
