//! Several keys in one request: all or nothing.

use std::{sync::Arc, time::Duration};

use distlock_tests::{Backend, Tally};
use tokio::task::JoinSet;

distlock_tests::suite![
    all_of_them_are_held_and_all_are_released,
    one_busy_key_keeps_all_the_others_free,
    the_order_of_the_keys_and_repetitions_do_not_matter,
    callers_with_overlapping_keys_do_not_wait_in_a_circle,
    no_key_at_all_or_a_bad_one_is_invalid,
];

async fn all_of_them_are_held_and_all_are_released(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let guard = one.lock_all(["a", "b", "c"]).acquire().await.unwrap();
    for key in ["a", "b", "c"] {
        assert!(other.lock(key).try_acquire().await.unwrap().is_none(), "{key}");
    }
    guard.release().await.unwrap();
    for key in ["a", "b", "c"] {
        backend.is_clean(key).await;
    }
}

async fn one_busy_key_keeps_all_the_others_free(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let guard = one.lock("b").acquire().await.unwrap();
    let error = other.lock_all(["a", "b", "c"]).no_wait().acquire().await.unwrap_err();
    assert!(error.is_busy(), "{error:?}");
    for key in ["a", "c"] {
        one.lock(key).wait(Duration::from_secs(20)).acquire().await.unwrap().release().await.unwrap();
    }
    guard.release().await.unwrap();
}

async fn the_order_of_the_keys_and_repetitions_do_not_matter(backend: Backend) {
    let manager = backend.manager().await;
    manager.lock_all(["b", "a", "b", "a"]).acquire().await.unwrap().release().await.unwrap();
    backend.is_clean("a").await;
}

async fn callers_with_overlapping_keys_do_not_wait_in_a_circle(backend: Backend) {
    const ROUNDS: u64 = 10;
    let sets = [["a", "b"], ["b", "c"], ["c", "a"], ["b", "a"]];
    let tally = Arc::new([Tally::default(), Tally::default(), Tally::default()]);
    let mut tasks = JoinSet::new();
    for set in sets {
        let (manager, tally) = (backend.manager().await, tally.clone());
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

async fn no_key_at_all_or_a_bad_one_is_invalid(backend: Backend) {
    let manager = backend.manager().await;
    assert!(manager.lock_all(Vec::<String>::new()).acquire().await.is_err());
    let error = manager.lock_all(["a", ""]).acquire().await.unwrap_err();
    assert!(matches!(error, distlock::LockError::InvalidKey { .. }), "{error:?}");
    assert!(
        manager.lock_all(["a", "b"]).fenced().acquire().await.is_err(),
        "no single token orders several keys"
    );
    backend.is_clean("a").await;
}
