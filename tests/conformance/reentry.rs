//! A task that asks again for what it holds would wait for itself.

use std::time::Duration;

use distlock::LockError;
use distlock_tests::Backend;

distlock_tests::suite![
    the_same_key_inside_its_own_section_would_deadlock,
    another_key_inside_a_section_is_fine,
    a_spawned_task_is_not_nested,
    is_held_here_knows_the_section,
];

async fn the_same_key_inside_its_own_section_would_deadlock(backend: Backend) {
    let manager = backend.manager().await;
    let nested = manager.lock("k").run(async |_| manager.lock("k").wait_forever().run(async |_| ()).await);
    let error =
        tokio::time::timeout(Duration::from_secs(20), nested).await.expect("at once").unwrap().unwrap_err();
    assert!(matches!(error, LockError::WouldDeadlock { .. }), "{error:?}");
    backend.is_clean("k").await;
}

async fn another_key_inside_a_section_is_fine(backend: Backend) {
    let manager = backend.manager().await;
    manager
        .lock("a")
        .run(async |_| manager.lock("b").no_wait().run(async |_| ()).await)
        .await
        .unwrap()
        .unwrap();
}

async fn a_spawned_task_is_not_nested(backend: Backend) {
    let manager = backend.manager().await;
    let spawned = manager.lock("k").run(async |_| {
        let manager = manager.clone();
        tokio::spawn(async move { manager.lock("k").no_wait().run(async |_| ()).await }).await.unwrap()
    });
    assert!(spawned.await.unwrap().unwrap_err().is_busy());
}

async fn is_held_here_knows_the_section(backend: Backend) {
    let manager = backend.manager().await;
    assert!(!distlock::is_held_here("k"));
    manager
        .lock("k")
        .run(async |_| {
            assert!(distlock::is_held_here("k"));
            assert!(!distlock::is_held_here("other"));
        })
        .await
        .unwrap();
    assert!(!distlock::is_held_here("k"));
}
