//! At most one holder per key.

use std::{sync::Arc, time::Duration};

use distlock::LockManager;
use distlock_tests::{Backend, History, Section, Tally, shared_clock};
use tokio::{sync::Mutex, task::JoinSet};

distlock_tests::suite![
    one_holder_at_a_time_among_tasks_and_managers,
    different_keys_do_not_exclude_each_other,
    a_busy_key_is_free_again_after_the_release,
    keys_may_hold_any_text,
];

async fn one_holder_at_a_time_among_tasks_and_managers(backend: Backend) {
    const MANAGERS: usize = 3;
    const TASKS: usize = 8;
    const ROUNDS: usize = 10;
    let tally = Arc::new(Tally::default());
    let history = Arc::new(Mutex::new(History::default()));
    let mut tasks = JoinSet::new();
    for number in 0..MANAGERS {
        let manager = backend.manager().await;
        for task in 0..TASKS {
            let (manager, tally, history) = (manager.clone(), tally.clone(), history.clone());
            let holder = format!("{number}/{task}");
            tasks.spawn(async move {
                for _ in 0..ROUNDS {
                    let section = section(&manager, &holder, &tally).await;
                    history.lock().await.add(section);
                }
            });
        }
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    assert_eq!(tally.value(), (MANAGERS * TASKS * ROUNDS) as u64);
    history.lock().await.assert_sound();
    backend.is_clean("hot").await;
}

async fn section(manager: &LockManager, holder: &str, tally: &Tally) -> Section {
    let guard = manager.lock("hot").fenced().wait(Duration::from_secs(60)).acquire().await.unwrap();
    let entered = shared_clock();
    tally.increment().await;
    let left = shared_clock();
    let fence = guard.fencing_token().map(|token| token.get());
    guard.release().await.unwrap();
    Section { fence, ..Section::new(holder, "hot", entered, left) }
}

async fn different_keys_do_not_exclude_each_other(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let first = one.lock("a").acquire().await.unwrap();
    let second = other.lock("b").no_wait().acquire().await.unwrap();
    let third = one.lock("A").no_wait().acquire().await.unwrap();
    assert_eq!((first.key(), second.key(), third.key()), ("a", "b", "A"));
}

async fn a_busy_key_is_free_again_after_the_release(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let guard = one.lock("k").acquire().await.unwrap();
    assert!(other.lock("k").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    let guard = other.lock("k").try_acquire().await.unwrap().expect("the lock is free");
    guard.release().await.unwrap();
    backend.is_clean("k").await;
}

async fn keys_may_hold_any_text(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    for key in ["a b", "{a}b}", "}{", "günther:🦀", "a\r\nb", "%3A", "*", "\u{1}\u{0}"] {
        let guard = one.lock(key).acquire().await.unwrap();
        assert_eq!(guard.key(), key);
        assert!(other.lock(key).try_acquire().await.unwrap().is_none(), "{key:?} excludes");
        guard.release().await.unwrap();
        assert!(other.lock(key).try_acquire().await.unwrap().is_some(), "{key:?} is free");
    }
}
