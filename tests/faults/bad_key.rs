//! Invalid keys: empty, or longer than 1 KiB.

use distlock::LockError;
use distlock_tests::Backend;

distlock_tests::suite![
    an_empty_key_is_invalid,
    a_key_above_one_kibibyte_is_invalid,
    a_key_of_one_kibibyte_is_fine,
    operations_refuse_bad_keys_too,
];

async fn an_empty_key_is_invalid(backend: Backend) {
    let manager = backend.manager().await;
    for refused in
        [manager.lock("").acquire().await.map(drop), manager.lock("").try_acquire().await.map(drop)]
    {
        assert!(matches!(refused, Err(LockError::InvalidKey { .. })), "{refused:?}");
    }
    let mut ran = false;
    let refused = manager.lock("").run(async |_| ran = true).await;
    assert!(matches!(refused, Err(LockError::InvalidKey { .. })) && !ran, "{refused:?}");
}

async fn a_key_above_one_kibibyte_is_invalid(backend: Backend) {
    let refused = backend.manager().await.lock("k".repeat(1025)).acquire().await;
    assert!(matches!(refused, Err(LockError::InvalidKey { .. })), "{refused:?}");
    let text = refused.unwrap_err().to_string();
    assert!(text.len() < 1000, "the error does not repeat all of it: {text}");
}

async fn a_key_of_one_kibibyte_is_fine(backend: Backend) {
    let key = "k".repeat(1024);
    backend.manager().await.lock(key.as_str()).acquire().await.unwrap().release().await.unwrap();
    backend.is_clean(&key).await;
}

async fn operations_refuse_bad_keys_too(backend: Backend) {
    let manager = backend.manager().await;
    assert!(matches!(manager.inspect("").await, Err(LockError::InvalidKey { .. })));
    assert!(matches!(manager.force_release("").await.map(drop), Err(LockError::InvalidKey { .. })));
}
