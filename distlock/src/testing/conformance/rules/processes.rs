//! Managers that behave like separate processes.

use std::time::Duration;

use crate::testing::conformance::Place;

pub async fn a_key_prefix_separates_managers_and_is_not_shown(place: Place) {
    let full = |key: &str| format!("{}{key}", place.prefix());
    let prefixed = async |prefix: &str| place.builder().key_prefix(full(prefix)).connect().await.unwrap();
    let (a, b, whole) = (prefixed("a:").await, prefixed("b:").await, prefixed("").await);
    let first = a.lock("k").acquire().await.unwrap();
    let second = b.lock("k").no_wait().acquire().await.unwrap();
    assert_eq!((first.key(), second.key()), ("k", "k"));
    let error = a.lock("k").no_wait().acquire().await.unwrap_err();
    assert!(!error.to_string().contains("a:k"), "{error}");
    for (manager, key) in [(&a, "a:k"), (&b, "b:k")] {
        let info = manager.inspect("k").await.unwrap().expect("it is held");
        assert_eq!((info.key, info.full_key), ("k".to_owned(), full(key)));
        // Spelled in another way it is the same key.
        assert!(whole.lock(key).no_wait().acquire().await.unwrap_err().is_busy(), "{key}");
    }
}

pub async fn one_that_ends_gives_back_what_it_holds(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let guard = one.lock("k").ttl(Duration::from_secs(3_600)).acquire().await.unwrap();
    let report = one.shutdown(Duration::ZERO).await;
    assert_eq!((report.held, report.lost), (1, 1));
    assert!(guard.check().unwrap_err().is_lost());
    drop(guard);
    other.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap().release().await.unwrap();
    assert!(matches!(one.lock("k").acquire().await, Err(crate::LockError::Closed)));
    place.is_clean("k").await;
}
