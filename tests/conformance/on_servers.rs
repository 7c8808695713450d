//! The names of keys on the servers.

use distlock::LockManager;
use distlock_tests::Backend;

distlock_tests::suite![a_key_prefix_stands_in_front_of_the_key_on_the_server];

async fn a_key_prefix_stands_in_front_of_the_key_on_the_server(backend: Backend) {
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
