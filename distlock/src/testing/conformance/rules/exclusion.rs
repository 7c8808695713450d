//! At most one holder per key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::testing::conformance::Place;
use crate::testing::conformance::place::Tally;
use tokio::task::JoinSet;

pub async fn one_holder_at_a_time_among_tasks_and_managers(place: Place) {
    const MANAGERS: usize = 3;
    const TASKS: usize = 8;
    const ROUNDS: usize = 10;
    let (tally, inside) = (Arc::new(Tally::default()), Arc::new(AtomicU32::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..MANAGERS {
        let manager = place.manager().await;
        for _ in 0..TASKS {
            let (manager, tally, inside) = (manager.clone(), tally.clone(), inside.clone());
            tasks.spawn(async move {
                for _ in 0..ROUNDS {
                    let guard = manager.lock("hot").wait(Duration::from_secs(60)).acquire().await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "another holder is inside");
                    tally.increment().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await.unwrap();
                }
            });
        }
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    assert_eq!(tally.value(), (MANAGERS * TASKS * ROUNDS) as u64);
    place.is_clean("hot").await;
}

pub async fn different_keys_do_not_exclude_each_other(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let first = one.lock("a").acquire().await.unwrap();
    let second = other.lock("b").no_wait().acquire().await.unwrap();
    let third = one.lock("A").no_wait().acquire().await.unwrap();
    assert_eq!((first.key(), second.key(), third.key()), ("a", "b", "A"));
}

pub async fn a_busy_key_is_free_again_after_the_release(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let guard = one.lock("k").acquire().await.unwrap();
    assert!(other.lock("k").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    let guard = other.lock("k").try_acquire().await.unwrap().expect("the lock is free");
    guard.release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn keys_may_hold_any_text(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    for key in ["a b", "{a}b}", "}{", "günther:🦀", "a\r\nb", "%3A", "*", "\u{1}\u{0}"] {
        let guard = one.lock(key).acquire().await.unwrap();
        assert_eq!(guard.key(), key);
        assert!(other.lock(key).try_acquire().await.unwrap().is_none(), "{key:?} excludes");
        guard.release().await.unwrap();
        assert!(other.lock(key).try_acquire().await.unwrap().is_some(), "{key:?} is free");
    }
}

pub async fn a_lock_that_is_not_fenced_has_no_token(place: Place) {
    let manager = place.manager().await;
    let guard = manager.lock("k").acquire().await.unwrap();
    assert_eq!(guard.fencing_token(), None);
}
