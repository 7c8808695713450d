//! The label of a function's lock, and the warnings of long waits and holds.

use std::time::Duration;

use distlock::{LockError, LockEvent, LockManager, distributed_lock};

#[distributed_lock(key = "mail:<to>", manager = manager)]
async fn by_template(manager: &LockManager, to: &str) -> Result<(), LockError> {
    Ok(())
}

#[distributed_lock(key = "mail:<to>", label = "mail", manager = manager)]
async fn labelled(manager: &LockManager, to: &str) -> Result<(), LockError> {
    Ok(())
}

/// The former name of the option.
#[allow(deprecated)]
mod former {
    use super::*;

    #[distributed_lock(key = "mail:<to>", name = "letter", manager = manager)]
    pub(super) async fn named(manager: &LockManager, to: &str) -> Result<(), LockError> {
        Ok(())
    }
}

const LIMIT: Duration = Duration::from_millis(30);

#[distributed_lock(key = "slow", label = "slow", warn_wait = "30ms", warn_hold = LIMIT, manager = manager)]
async fn slow(manager: &LockManager, until: impl Future<Output = ()>) -> Result<(), LockError> {
    until.await;
    Ok(())
}

#[tokio::test]
async fn events_say_the_label() {
    let manager = LockManager::in_memory();
    let mut events = manager.events();
    by_template(&manager, "ann").await.unwrap();
    labelled(&manager, "ann").await.unwrap();
    former::named(&manager, "ann").await.unwrap();
    let mut labels = Vec::new();
    while labels.len() < 3 {
        if let LockEvent::Acquired { label, .. } = events.next().await.unwrap() {
            labels.push(label);
        }
    }
    assert_eq!(labels, ["mail:<to>", "mail", "letter"]);
}

#[tokio::test]
async fn a_long_wait_and_a_long_hold_are_reported_once_they_are_long() {
    let manager = LockManager::in_memory();
    let mut events = manager.events();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let holder = tokio::spawn({
        let manager = manager.clone();
        async move { slow(&manager, async { drop(ended.await) }).await }
    });
    while !matches!(events.next().await, Some(LockEvent::Acquired { .. })) {}
    let waiter = tokio::spawn(async move { slow(&manager, async {}).await });
    let (mut waits, mut holds) = (0, 0);
    while waits == 0 || holds == 0 {
        match events.next().await.unwrap() {
            LockEvent::LongWait { label, waited, .. } => {
                assert!(label == "slow" && waited >= LIMIT, "{label} {waited:?}");
                waits += 1;
            }
            LockEvent::LongHold { label, held, .. } => {
                assert!(label == "slow" && held >= LIMIT, "{label} {held:?}");
                holds += 1;
            }
            _ => {}
        }
    }
    end.send(()).unwrap();
    holder.await.unwrap().unwrap();
    waiter.await.unwrap().unwrap();
}
