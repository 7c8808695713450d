//! Looking at a lock from outside, and taking it away.

use std::time::Duration;

use distlock::LockManager;
use distlock_tests::Backend;

distlock_tests::suite![
    a_free_lock_has_nothing_to_inspect,
    inspect_shows_the_holder_and_the_remaining_time,
    force_release_frees_the_lock,
    force_release_of_a_free_lock_changes_nothing,
    a_key_prefix_separates_managers_and_is_not_shown,
];

async fn a_free_lock_has_nothing_to_inspect(backend: Backend) {
    assert!(backend.manager().await.inspect("k").await.unwrap().is_none());
}

async fn inspect_shows_the_holder_and_the_remaining_time(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let ttl = Duration::from_secs(20);
    let guard = one.lock("k").ttl(ttl).acquire().await.unwrap();
    let info = other.inspect("k").await.unwrap().expect("somebody holds it");
    let remaining = info.remaining.expect("a lease has an end");
    assert!(remaining <= ttl && remaining > ttl / 2, "{info:?}");
    assert_eq!(info.waiters, 0);
    assert!(!info.holder.is_empty());
    guard.release().await.unwrap();
    assert!(other.inspect("k").await.unwrap().is_none());
}

async fn force_release_frees_the_lock(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let _lost = one.lock("k").ttl(Duration::from_secs(3)).acquire().await.unwrap();
    assert!(other.force_release("k").await.unwrap());
    // The manager that holds it learns of it at its next renewal; in memory that is the one that asks, and
    // learns of it at once.
    other.lock("k").wait(Duration::from_secs(60)).acquire().await.unwrap().release().await.unwrap();
}

async fn force_release_of_a_free_lock_changes_nothing(backend: Backend) {
    let manager = backend.manager().await;
    assert!(!manager.force_release("k").await.unwrap());
    backend.is_clean("k").await;
}

async fn a_key_prefix_separates_managers_and_is_not_shown(backend: Backend) {
    let Some(builder) = backend.builder() else { return memory_prefix().await };
    let full = |key: &str| format!("{}{key}", backend.prefix());
    let prefixed = async |prefix: &str| builder.clone().key_prefix(full(prefix)).connect().await.unwrap();
    let (a, b) = (prefixed("a:").await, prefixed("b:").await);
    let first = a.lock("k").acquire().await.unwrap();
    let second = b.lock("k").no_wait().acquire().await.unwrap();
    assert_eq!((first.key(), second.key()), ("k", "k"));
    let error = a.lock("k").no_wait().acquire().await.unwrap_err();
    assert!(!error.to_string().contains("a:k"), "{error}");
    for key in ["a:k", "b:k"] {
        let key = full(key);
        assert!(backend.servers().iter().any(|server| server.keys_below(&key).contains(&key)), "{key}");
    }
}

async fn memory_prefix() {
    let manager = LockManager::builder().url("memory:").key_prefix("a:").connect().await.unwrap();
    let guard = manager.lock("k").acquire().await.unwrap();
    assert_eq!(guard.key(), "k");
}
