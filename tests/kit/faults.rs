//! Requests that fail on demand, and leases that are lost on demand.

use std::panic::{AssertUnwindSafe, catch_unwind};

use distlock::testing::{Fault, assert_held_here, eventually, fail_next, lose, planned};
use distlock::{LockError, LockEvent, LockManager, LostReason, distributed_lock};
use distlock_tests::RedisServer;

#[tokio::test]
async fn faults_happen_in_order_to_one_request_each_of_their_key() {
    let manager = LockManager::in_memory();
    fail_next(&manager, "a", Fault::Busy);
    fail_next(&manager, "a", Fault::Unavailable);
    assert_eq!(planned(&manager), 2);
    manager.lock("b").acquire().await.unwrap().release().await.unwrap();
    assert!(manager.lock("a").try_acquire().await.unwrap().is_none(), "busy is none");
    let unavailable = manager.lock("a").acquire().await.unwrap_err();
    assert!(unavailable.is_unavailable() && unavailable.to_string().contains('a'), "{unavailable}");
    assert_eq!(planned(&manager), 0);
    manager.lock("a").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_fault_of_one_of_several_keys_is_that_of_all() {
    let manager = LockManager::in_memory();
    fail_next(&manager, "b", Fault::Busy);
    assert!(manager.lock_all(["a", "b"]).acquire().await.unwrap_err().is_busy());
    assert!(manager.inspect("a").await.unwrap().is_none(), "nothing was acquired");
    fail_next(&manager, "b", Fault::Lost);
    let guard = manager.lock_all(["a", "b"]).acquire().await.unwrap();
    assert!(!guard.is_held());
}

#[tokio::test]
async fn other_managers_do_not_fail() {
    let (manager, other) = (LockManager::in_memory(), LockManager::in_memory());
    fail_next(&manager, "k", Fault::Busy);
    assert!(other.lock("k").try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn a_lock_that_is_lost_at_once_runs_nothing_and_is_reported_as_any_loss() {
    let manager = LockManager::in_memory();
    let mut events = manager.events();
    fail_next(&manager, "k", Fault::Lost);
    let body = async |_| -> () { panic!("it is lost before its body begins") };
    assert!(manager.lock("k").run(body).await.unwrap_err().is_lost());
    let mut seen = Vec::new();
    while seen.len() < 3 {
        match events.next().await.unwrap() {
            LockEvent::Acquired { .. } => seen.push("acquired"),
            LockEvent::Lost { reason: LostReason::Expired, .. } => seen.push("lost"),
            LockEvent::Released { .. } => seen.push("released"),
            _ => {}
        }
    }
    assert_eq!(seen, ["acquired", "lost", "released"]);
    eventually("the key is free", async || manager.inspect("k").await.unwrap().is_none()).await;
}

#[distributed_lock(key = "k", manager = manager)]
fn on_a_thread(manager: &LockManager, ran: &mut bool) -> Result<(), LockError> {
    *ran = true;
    Ok(())
}

#[test]
fn a_body_on_a_thread_runs_and_its_caller_learns_of_the_loss() {
    let manager = LockManager::in_memory();
    fail_next(&manager, "k", Fault::Lost);
    let mut ran = false;
    assert!(on_a_thread(&manager, &mut ran).unwrap_err().is_lost());
    assert!(ran, "a thread cannot be stopped");
    fail_next(&manager, "k", Fault::Busy);
    assert!(on_a_thread(&manager, &mut ran).unwrap_err().is_busy());
}

#[tokio::test]
async fn a_lease_is_lost_now_and_the_next_request_gets_the_lock() {
    let server = RedisServer::start();
    let (manager, other) = (
        LockManager::connect(server.url()).await.unwrap(),
        LockManager::connect(server.url()).await.unwrap(),
    );
    assert!(!lose(&manager, "k"), "nothing to lose");
    let guard = manager.lock("k").acquire().await.unwrap();
    assert!(!lose(&other, "k"), "another process holds it");
    assert!(guard.is_held());
    assert!(lose(&manager, "k"));
    assert!(!guard.is_held());
    assert!(matches!(guard.lost().await, LockError::Lost { reason: LostReason::Expired, .. }));
    // As after a real loss, the key becomes free when the former holder ends, or when the ttl is over.
    assert!(other.lock("k").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap_err();
    eventually("the other one gets it", async || other.lock("k").try_acquire().await.unwrap().is_some())
        .await;
}

#[tokio::test]
async fn code_outside_a_section_is_told_what_is_held() {
    let manager = LockManager::in_memory();
    let message = |key: &'static str| {
        let panic = catch_unwind(AssertUnwindSafe(|| assert_held_here(key))).unwrap_err();
        panic.downcast_ref::<String>().unwrap().clone()
    };
    assert!(message("k").contains("no other lock is"), "{}", message("k"));
    manager
        .lock("outer")
        .run(async |_| {
            manager
                .lock_all(["a", "b"])
                .run(async |_| {
                    assert_held_here("a");
                    assert_held_here("outer");
                    assert!(message("k").ends_with("held are `a`, `b`, `outer`"), "{}", message("k"));
                })
                .await
        })
        .await
        .unwrap()
        .unwrap();
}
