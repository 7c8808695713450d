//! A whole manager on a store that breaks a rule, or that does a permitted thing at the worst moment.

use std::time::Instant;

use super::*;
use crate::{LockError, LockManager};
use distlock_store::{Busy, LeaseRule};

/// A manager, and the script of its store.
pub(super) async fn manager(abilities: Abilities) -> (LockManager, Script, StoreEvents) {
    manager_in_session(abilities, Duration::from_secs(3_600)).await
}

/// The same. With sessions, the first session has this lifetime.
async fn manager_in_session(abilities: Abilities, timeout: Duration) -> (LockManager, Script, StoreEvents) {
    let (store, mut script) = scripted(abilities);
    let connecting = tokio::spawn(LockManager::builder().store(store).connect());
    let events = script.events().await;
    events.up(EarlierCommands::Ended);
    events.heartbeat().answered(timeout);
    (connecting.await.unwrap().unwrap(), script, events)
}

pub(super) fn busy() -> Result<AcquireReply, StoreError> {
    Ok(AcquireReply::Busy(Busy::by("dl1:other:1")))
}

#[tokio::test]
async fn an_acquisition_that_is_dropped_under_way_is_given_back() {
    let (manager, mut script, _events) = manager(Abilities::default()).await;
    let acquiring = tokio::spawn(manager.lock("k").acquire());
    let (request, answer) = script.next_acquire().await;
    acquiring.abort();
    assert!(acquiring.await.unwrap_err().is_cancelled());
    answer.send(acquired()).unwrap();
    let (release, answer) = script.next_release().await;
    assert_eq!(release.owner, request.owner);
    answer.send(Ok(ReleaseReply::Released)).unwrap();
}

/// The compensation was answered before the acquisition that it is for.
#[tokio::test]
async fn an_acquisition_that_is_carried_out_after_its_compensation_is_given_back_again() {
    let (manager, mut script, _events) = manager(Abilities::default()).await;
    let acquiring = tokio::spawn(manager.lock("k").wait(Duration::from_millis(100)).acquire());
    let (request, stuck) = script.next_acquire().await;
    assert!(acquiring.await.unwrap().unwrap_err().is_unavailable());
    // Ten seconds later no request waits for it.
    loop {
        match script.next().await {
            Call::Release(release, answer) => {
                assert_eq!(release.owner, request.owner);
                answer.send(Ok(ReleaseReply::NotHeld)).unwrap();
                break;
            }
            Call::Acquire(_, answer) => answer.send(busy()).unwrap(),
            other => panic!("{other:?}"),
        }
    }
    stuck.send(acquired()).unwrap();
    let (release, answer) = script.next_release().await;
    assert_eq!(release.owner, request.owner);
    answer.send(Ok(ReleaseReply::Released)).unwrap();
}

#[tokio::test]
async fn a_store_that_panics_is_unavailable_and_the_manager_goes_on() {
    let (manager, mut script, _events) = manager(Abilities::default()).await;
    let acquiring = tokio::spawn(manager.lock("k").no_wait().acquire());
    let panicking = async {
        loop {
            if let Call::Release(_, answer) = script.next().await {
                answer.send(Ok(ReleaseReply::NotHeld)).unwrap();
                return;
            }
        }
    };
    panicking.await;
    let error = acquiring.await.unwrap().unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("panic"), "{error}");
    let acquiring = tokio::spawn(manager.lock("k").acquire());
    loop {
        match script.next().await {
            // If the last operation was an acquisition that panicked, it may have been executed after the first
            // release.
            Call::Release(_, answer) => answer.send(Ok(ReleaseReply::NotHeld)).unwrap(),
            Call::Acquire(_, answer) => break answer.send(acquired()).unwrap(),
            other => panic!("{other:?}"),
        }
    }
    let guard = acquiring.await.unwrap().unwrap();
    assert!(guard.is_held());
}

#[tokio::test]
async fn a_store_that_says_busy_to_who_holds_the_lock_keeps_nobody_waiting_for_ever() {
    let (manager, mut script, _events) = manager(Abilities::default()).await;
    let acquiring = tokio::spawn(manager.lock("k").wait_forever().acquire());
    loop {
        match script.next().await {
            Call::Acquire(request, answer) => {
                let ourselves = Busy::by(request.owner.as_str());
                answer.send(Ok(AcquireReply::Busy(ourselves))).unwrap();
            }
            Call::Release(_, answer) => {
                answer.send(Ok(ReleaseReply::Released)).unwrap();
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    let error = acquiring.await.unwrap().unwrap_err();
    assert!(error.to_string().contains("breaks its contract"), "{error}");
}

#[tokio::test]
async fn a_report_that_is_doubled_costs_a_question_and_one_that_is_missing_a_moment() {
    let (manager, mut script, events) = manager(queueing()).await;
    let acquiring = tokio::spawn(manager.lock("k").wait_forever().acquire());
    // At first without a place in the queue, then with one.
    for _ in 0..2 {
        let (_, answer) = script.next_acquire().await;
        answer.send(busy()).unwrap();
    }
    let start = Instant::now();
    events.released("k");
    events.released("k");
    let (request, answer) = script.next_acquire().await;
    assert!(request.queue.is_some());
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    answer.send(busy()).unwrap();
    // Without a report the engine asks after its own interval.
    loop {
        let (_, answer) = script.next_acquire().await;
        let is_heartbeat = start.elapsed() > Duration::from_secs(1);
        answer.send(if is_heartbeat { acquired() } else { busy() }).unwrap();
        if is_heartbeat {
            break;
        }
    }
    assert!(acquiring.await.unwrap().unwrap().is_held());
}

#[tokio::test]
async fn what_the_store_cannot_do_is_not_asked() {
    let (manager, mut script, _events) =
        manager(Abilities::default().longest_ttl(Duration::from_secs(60))).await;
    let hour = Duration::from_secs(3_600);
    for request in [
        manager.lock("k").shared(),
        manager.lock("k").max_holders(2),
        manager.lock("k").fenced(),
        manager.lock("k").ttl(hour),
        manager.lock_all(["a", "b"]).ttl(hour),
    ] {
        let error = request.acquire().await.unwrap_err();
        assert!(matches!(error, LockError::InvalidOptions { .. }), "{error}");
        assert!(error.to_string().contains("the script"), "{error}");
    }
    script.is_quiet().await;
    let (store, _script) = scripted(Abilities::default().longest_ttl(Duration::from_secs(5)));
    let error = LockManager::builder().store(store).connect_lazy().unwrap_err();
    assert!(error.to_string().contains("`default_ttl`"), "{error}");
}

#[tokio::test]
async fn a_store_serves_one_manager() {
    let (store, _script) = scripted(Abilities::default());
    let builder = LockManager::builder().store(store);
    let _first = builder.clone().connect_lazy().unwrap();
    let error = builder.connect_lazy().unwrap_err();
    assert!(error.to_string().contains("already has a manager"), "{error}");
    let (store, _script) = scripted(Abilities::default());
    let error = LockManager::builder().store(store).url("memory:").connect_lazy().unwrap_err();
    assert!(matches!(error, LockError::InvalidOptions { .. }), "{error}");
}

/// Every acquisition and release is granted.
async fn obliging(script: &mut Script) -> Call {
    loop {
        match script.next().await {
            Call::Acquire(_, answer) => answer.send(acquired()).unwrap(),
            Call::Renew(_, answer) => answer.send(Ok(RenewReply::Renewed)).unwrap(),
            other => return other,
        }
    }
}

#[tokio::test]
async fn a_lost_session_loses_every_lock_at_once() {
    let (manager, mut script, events) = manager(queueing().lease(LeaseRule::Session)).await;
    let acquire = async {
        let a = manager.lock("a").ttl(Duration::from_secs(3_600)).wait_forever().acquire().await.unwrap();
        let b = manager.lock("b").ttl(Duration::from_secs(3_600)).no_renew().acquire().await.unwrap();
        (a, b)
    };
    let (a, b) =
        tokio::select! { both = acquire => both, other = obliging(&mut script) => panic!("{other:?}") };
    assert!(a.is_held() && b.is_held());
    events.session_lost();
    for guard in [&a, &b] {
        let lost = guard.lost().await;
        assert!(matches!(lost, LockError::Lost { reason: crate::LostReason::Expired, .. }), "{lost}");
    }
}

#[tokio::test]
async fn holders_know_when_the_session_is_over_without_being_told() {
    let short = Duration::from_millis(1_500);
    let (manager, mut script, _events) =
        manager_in_session(queueing().lease(LeaseRule::Session), short).await;
    let acquire = manager.lock("k").ttl(Duration::from_secs(3_600)).wait_forever().acquire();
    let guard = tokio::select! { guard = acquire => guard.unwrap(), other = obliging(&mut script) => panic!("{other:?}") };
    assert!(guard.remaining() < Duration::from_millis(1_500), "{:?}", guard.remaining());
    let start = Instant::now();
    guard.lost().await;
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// Nothing but this process ends a lease that lives as long as its session.
#[tokio::test]
async fn a_lock_whose_ttl_is_over_is_released_although_its_guard_lives() {
    let (manager, mut script, _events) = manager(queueing().lease(LeaseRule::Session)).await;
    let acquire = manager.lock("k").ttl(Duration::from_millis(300)).no_renew().acquire();
    let guard = tokio::select! { guard = acquire => guard.unwrap(), other = obliging(&mut script) => panic!("{other:?}") };
    let Call::Release(_, answer) = obliging(&mut script).await else { panic!("not released") };
    answer.send(Ok(ReleaseReply::Released)).unwrap();
    assert!(!guard.is_held());
}
