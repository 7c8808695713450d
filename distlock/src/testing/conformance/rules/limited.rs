//! Semaphores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use super::loss::is_lost_at_once;
use super::operations::{holder_of, is_owner, tells_ends};
use super::threads::{join, spawn};
use crate::testing::conformance::Place;
use crate::{LockError, LockKind, LockManager, distributed_lock};

const LONG: Duration = Duration::from_secs(60);

pub async fn no_more_holders_than_the_limit(place: Place) {
    const LIMIT: u32 = 3;
    let managers = [place.manager().await, place.manager().await];
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
    place.is_clean("k").await;
}

pub async fn the_place_of_a_lost_holder_is_free_again(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let lost =
        one.lock("k").max_holders(1).ttl(Duration::from_millis(300)).no_renew().acquire().await.unwrap();
    let next = other.lock("k").max_holders(1).wait(LONG).acquire().await.unwrap();
    assert!(!lost.is_held());
    next.release().await.unwrap();
    drop(lost);
    place.is_clean("k").await;
}

pub async fn kinds_and_limits_do_not_mix(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let _guard = one.lock("k").max_holders(2).acquire().await.unwrap();
    let requests = [other.lock("k").max_holders(3), other.lock("k").max_holders(1)];
    for request in requests {
        let error = request.wait(Duration::from_millis(200)).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::WrongKind { .. }), "{error:?}");
    }
    let refused = other.lock("other").max_holders(0).acquire().await;
    assert!(matches!(refused, Err(LockError::InvalidOptions { .. })), "{refused:?}");
}

pub async fn a_limited_lock_among_several_keys_is_named_and_nothing_is_kept(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let limited = one.lock("b").max_holders(2).acquire().await.unwrap();
    for request in [other.lock_all(["a", "b", "c"]), other.lock_all(["b", "c"])] {
        let error = request.acquire().await.unwrap_err();
        assert!(matches!(&error, LockError::WrongKind { key, .. } if key.as_str() == "b"), "{error:?}");
    }
    limited.release().await.unwrap();
    for key in ["a", "b", "c"] {
        place.is_clean(key).await;
    }
}

pub async fn inspect_and_busy_name_those_who_hold_a_limited_lock(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let ttls = [Duration::from_secs(20), Duration::from_secs(40)];
    let first = one.lock("k").max_holders(2).ttl(ttls[0]).acquire().await.unwrap();
    let second = other.lock("k").max_holders(2).ttl(ttls[1]).acquire().await.unwrap();
    let info = one.inspect("k").await.unwrap().expect("two hold it");
    assert_eq!(info.kind, LockKind::Limited { max_holders: 2 });
    assert_eq!(info.holders.len(), 2, "{info:?}");
    assert!(info.holders.iter().all(|holder| is_owner(&holder.token)), "{info:?}");
    let tells_ends = tells_ends(&one).await;
    assert!(!tells_ends || info.holders[0].remaining > info.holders[1].remaining, "{info:?}");
    let once = one.lock("k").max_holders(2).no_wait().acquire().await.unwrap_err();
    let waited = one.lock("k").max_holders(2).wait(Duration::from_millis(200)).acquire().await.unwrap_err();
    for error in [once, waited] {
        // The first that may have ended, if the store reports ends.
        let named = if tells_ends { &info.holders[1..] } else { &info.holders[..] };
        assert!(named.iter().any(|holder| holder.token == holder_of(&error)), "{error}");
    }
    first.release().await.unwrap();
    second.release().await.unwrap();
    place.is_clean("k").await;
}

pub async fn a_forced_release_reaches_the_holders_at_once(place: Place) {
    let manager = place.manager().await;
    let request = manager.lock("limited").max_holders(2).ttl(Duration::from_secs(3_600));
    is_lost_at_once(&place, &manager, "limited", request).await;
}

pub async fn holders_may_be_threads(place: Place) {
    let manager = crate::blocking::LockManager::from(place.manager().await);
    let (inside, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let threads = (0..24).map(|_| {
        let (manager, inside, most) = (manager.clone(), inside.clone(), most.clone());
        spawn(move || {
            manager.lock("limited").max_holders(3).wait(LONG).run(|_| {
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
            })
        })
    });
    for result in join(threads.collect()).await {
        result.unwrap();
    }
    assert!(most.load(Ordering::SeqCst) <= 3);
}

#[distributed_lock(key = "export", max_holders = 2, wait = "30s", manager = locks)]
async fn export(locks: &LockManager, running: &tokio::sync::Semaphore) -> Result<(), LockError> {
    let _one_of_two = running.try_acquire().expect("a third holder");
    tokio::task::yield_now().await;
    Ok(())
}

pub async fn no_more_than_the_limit_run_at_once(place: Place) {
    let managers = [place.manager().await, place.manager().await];
    let running = std::sync::Arc::new(tokio::sync::Semaphore::new(2));
    let mut calls = tokio::task::JoinSet::new();
    for manager in managers.iter().cycle().take(20) {
        let (manager, running) = (manager.clone(), running.clone());
        calls.spawn(async move { export(&manager, &running).await });
    }
    while let Some(call) = calls.join_next().await {
        call.unwrap().unwrap();
    }
}
