//! A task that requests a lock again that it holds would wait for itself.

use std::time::Duration;

use crate::LockError;
use crate::testing::conformance::Place;

pub async fn the_same_key_inside_its_own_section_would_deadlock(place: Place) {
    let manager = place.manager().await;
    let nested = manager.lock("k").run(async |_| manager.lock("k").wait_forever().run(async |_| ()).await);
    let error =
        tokio::time::timeout(Duration::from_secs(20), nested).await.expect("at once").unwrap().unwrap_err();
    assert!(matches!(error, LockError::WouldDeadlock { .. }), "{error:?}");
    place.is_clean("k").await;
}

pub async fn another_key_inside_a_section_is_fine(place: Place) {
    let manager = place.manager().await;
    manager
        .lock("a")
        .run(async |_| manager.lock("b").no_wait().run(async |_| ()).await)
        .await
        .unwrap()
        .unwrap();
}

pub async fn a_spawned_task_is_not_nested(place: Place) {
    let manager = place.manager().await;
    let spawned = manager.lock("k").run(async |_| {
        let manager = manager.clone();
        tokio::spawn(async move { manager.lock("k").no_wait().run(async |_| ()).await }).await.unwrap()
    });
    assert!(spawned.await.unwrap().unwrap_err().is_busy());
}

pub async fn is_held_here_knows_the_section(place: Place) {
    let manager = place.manager().await;
    assert!(!crate::is_held_here("k"));
    manager
        .lock("k")
        .run(async |_| {
            assert!(crate::is_held_here("k"));
            assert!(!crate::is_held_here("other"));
        })
        .await
        .unwrap();
    assert!(!crate::is_held_here("k"));
}
