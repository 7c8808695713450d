//! Fencing tokens order the holders of a key.

use std::time::Duration;

use distlock_tests::Backend;

distlock_tests::suite![
    tokens_increase_from_holder_to_holder,
    tokens_increase_over_an_expiry,
    a_lock_that_is_not_fenced_has_no_token,
];

async fn tokens_increase_from_holder_to_holder(backend: Backend) {
    let managers = [backend.manager().await, backend.manager().await, backend.manager().await];
    let mut last = None;
    for manager in managers.iter().cycle().take(30) {
        let guard = manager.lock("k").fenced().acquire().await.unwrap();
        let token = guard.fencing_token();
        assert!(token > last, "{token:?} after {last:?}");
        assert!(token.unwrap().get() < 1 << 53);
        assert_eq!(token.unwrap().to_string().parse(), Ok(token.unwrap()));
        last = token;
        guard.release().await.unwrap();
    }
}

async fn tokens_increase_over_an_expiry(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let lost = one.lock("k").ttl(Duration::from_millis(300)).no_renew().fenced().acquire().await.unwrap();
    let next = other.lock("k").wait(Duration::from_secs(30)).fenced().acquire().await.unwrap();
    assert!(next.fencing_token() > lost.fencing_token());
}

async fn a_lock_that_is_not_fenced_has_no_token(backend: Backend) {
    let manager = backend.manager().await;
    let guard = manager.lock("k").acquire().await.unwrap();
    assert_eq!(guard.fencing_token(), None);
}
