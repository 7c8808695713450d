//! Read locks and semaphores.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use distlock::LockError;
use distlock_tests::{Backend, until_waiting};
use tokio::task::JoinSet;

distlock_tests::suite![;
    not on quorum:
    readers_share_and_exclude_a_writer,
    a_writer_excludes_readers,
    a_waiting_writer_gets_its_turn,
    no_more_holders_than_the_limit,
    the_place_of_a_lost_holder_is_free_again,
    kinds_and_limits_do_not_mix;
    only on quorum:
    shared_and_limited_locks_are_refused_with_the_reason,
];

const LONG: Duration = Duration::from_secs(60);

async fn readers_share_and_exclude_a_writer(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let first = one.lock("k").shared().acquire().await.unwrap();
    let second = other.lock("k").shared().no_wait().acquire().await.unwrap();
    assert!(other.lock("k").try_acquire().await.unwrap().is_none());
    first.release().await.unwrap();
    assert!(one.lock("k").try_acquire().await.unwrap().is_none());
    second.release().await.unwrap();
    one.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
    backend.is_clean("k").await;
}

async fn a_writer_excludes_readers(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let writer = one.lock("k").acquire().await.unwrap();
    assert!(other.lock("k").shared().try_acquire().await.unwrap().is_none());
    writer.release().await.unwrap();
    other.lock("k").shared().wait(LONG).acquire().await.unwrap().release().await.unwrap();
    backend.is_clean("k").await;
}

async fn a_waiting_writer_gets_its_turn(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let reader = one.lock("k").shared().acquire().await.unwrap();
    let writer = tokio::spawn(async move { other.lock("k").wait(LONG).acquire().await });
    until_waiting(&one, "k", 1).await;
    reader.release().await.unwrap();
    writer.await.unwrap().unwrap().release().await.unwrap();
    backend.is_clean("k").await;
}

async fn no_more_holders_than_the_limit(backend: Backend) {
    const LIMIT: u32 = 3;
    let managers = [backend.manager().await, backend.manager().await];
    let (inside, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut tasks = JoinSet::new();
    for task in 0..24 {
        let (manager, inside, most) = (managers[task % 2].clone(), inside.clone(), most.clone());
        tasks.spawn(async move {
            let guard = manager.lock("k").max_holders(LIMIT).wait(LONG).acquire().await.unwrap();
            let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(5)).await;
            inside.fetch_sub(1, Ordering::SeqCst);
            guard.release().await.unwrap();
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    assert!((2..=LIMIT).contains(&most.load(Ordering::SeqCst)), "{most:?} at a time");
    backend.is_clean("k").await;
}

async fn the_place_of_a_lost_holder_is_free_again(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let lost =
        one.lock("k").max_holders(1).ttl(Duration::from_millis(300)).no_renew().acquire().await.unwrap();
    let next = other.lock("k").max_holders(1).wait(LONG).acquire().await.unwrap();
    assert!(!lost.is_held());
    next.release().await.unwrap();
    drop(lost);
    backend.is_clean("k").await;
}

async fn kinds_and_limits_do_not_mix(backend: Backend) {
    let (one, other) = (backend.manager().await, backend.manager().await);
    let _guard = one.lock("k").max_holders(2).acquire().await.unwrap();
    for request in [other.lock("k").max_holders(3), other.lock("k").shared()] {
        let error = request.wait(Duration::from_millis(200)).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::WrongKind { .. }), "{error:?}");
    }
    let refused = other.lock("other").max_holders(0).acquire().await;
    assert!(matches!(refused, Err(LockError::InvalidOptions { .. })), "{refused:?}");
}

async fn shared_and_limited_locks_are_refused_with_the_reason(backend: Backend) {
    let manager = backend.manager().await;
    for request in [manager.lock("k").shared(), manager.lock("k").max_holders(2)] {
        let error = request.acquire().await.unwrap_err();
        assert!(matches!(error, LockError::InvalidOptions { .. }), "{error:?}");
        assert!(error.to_string().contains("not offered on a quorum"), "{error}");
    }
    backend.is_clean("k").await;
}
