//! Looking at a lock from outside, and taking it away.

use std::time::Duration;

use distlock::{LockError, LockKind, LockManager};
use distlock_tests::Backend;

distlock_tests::suite![
    a_free_lock_has_nothing_to_inspect,
    inspect_shows_the_holder_and_the_remaining_time,
    force_release_frees_the_lock,
    force_release_of_a_free_lock_changes_nothing,
    a_key_prefix_separates_managers_and_is_not_shown;
    not on quorum:
    inspect_and_busy_name_those_who_hold_a_shared_lock,
    inspect_and_busy_name_those_who_hold_a_limited_lock,
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
    assert!(is_owner(&info.holder), "{info:?}");
    assert_eq!(info.kind, LockKind::Exclusive);
    assert_eq!((info.holders.len(), &info.holders[0].token), (1, &info.holder));
    guard.release().await.unwrap();
    assert!(other.inspect("k").await.unwrap().is_none());
}

/// `dl1:<client>:<number>`
fn is_owner(holder: &str) -> bool {
    let mut parts = holder.split(':');
    parts.next() == Some("dl1")
        && parts.next().is_some_and(|client| client.len() > 1)
        && parts.next().is_some_and(|number| number.parse::<u64>().is_ok())
        && parts.next().is_none()
}

fn holder_of(error: &LockError) -> String {
    match error {
        LockError::Busy { holder: Some(holder), .. } => holder.to_string(),
        other => panic!("not busy: {other:?}"),
    }
}

async fn inspect_and_busy_name_those_who_hold_a_shared_lock(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let (short, long) = (Duration::from_secs(20), Duration::from_secs(40));
    let first = one.lock("k").shared().ttl(short).acquire().await.unwrap();
    let second = other.lock("k").shared().ttl(long).acquire().await.unwrap();
    let info = one.inspect("k").await.unwrap().expect("two hold it");
    assert_eq!(info.kind, LockKind::Shared);
    // In memory both are one manager, which holds it once for all its readers.
    let expected = if backend.is_memory() { 1 } else { 2 };
    assert_eq!(info.holders.len(), expected, "{info:?}");
    assert!(info.holders.iter().all(|holder| is_owner(&holder.token)), "{info:?}");
    assert_eq!(info.holder, info.holders[0].token);
    if let [first, last] = info.holders.as_slice() {
        assert!(first.remaining > last.remaining, "{info:?}");
    }
    assert!(info.remaining.is_some_and(|left| left > short / 2), "{info:?}");
    // One attempt, a wait, and several keys of which it is one.
    let once = one.lock("k").no_wait().acquire().await.unwrap_err();
    let waited = one.lock("k").wait(Duration::from_millis(200)).acquire().await.unwrap_err();
    let several = one.lock_all(["k", "l"]).no_wait().acquire().await.unwrap_err();
    for error in [once, waited, several] {
        assert_eq!(holder_of(&error), info.holder, "{error}");
    }
    first.release().await.unwrap();
    second.release().await.unwrap();
    backend.is_clean("k").await;
}

async fn inspect_and_busy_name_those_who_hold_a_limited_lock(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let ttls = [Duration::from_secs(20), Duration::from_secs(40)];
    let first = one.lock("k").max_holders(2).ttl(ttls[0]).acquire().await.unwrap();
    let second = other.lock("k").max_holders(2).ttl(ttls[1]).acquire().await.unwrap();
    let info = one.inspect("k").await.unwrap().expect("two hold it");
    assert_eq!(info.kind, LockKind::Limited { max_holders: 2 });
    assert_eq!(info.holders.len(), 2, "{info:?}");
    assert!(info.holders.iter().all(|holder| is_owner(&holder.token)), "{info:?}");
    assert!(info.holders[0].remaining > info.holders[1].remaining, "{info:?}");
    let once = one.lock("k").max_holders(2).no_wait().acquire().await.unwrap_err();
    let waited = one.lock("k").max_holders(2).wait(Duration::from_millis(200)).acquire().await.unwrap_err();
    for error in [once, waited] {
        // The first that may be out.
        assert_eq!(holder_of(&error), info.holders[1].token, "{error}");
    }
    first.release().await.unwrap();
    second.release().await.unwrap();
    backend.is_clean("k").await;
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
