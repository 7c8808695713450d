//! A wait longer than the ttl is fine.

use std::time::Duration;

use distlock_tests::Backend;

distlock_tests::suite![a_wait_longer_than_the_ttl_gets_the_lock_after_the_expiry];

async fn a_wait_longer_than_the_ttl_gets_the_lock_after_the_expiry(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let ttl = Duration::from_millis(300);
    let crashed = one.lock("k").ttl(ttl).no_renew().acquire().await.unwrap();
    let guard =
        other.lock("k").ttl(Duration::from_secs(10)).wait(Duration::from_secs(60)).acquire().await.unwrap();
    assert!(!crashed.is_held());
    guard.release().await.unwrap();
    backend.is_clean("k").await;
}
