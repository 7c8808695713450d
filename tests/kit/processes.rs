//! Several processes in one test.

use distlock::LockManager;
use distlock::testing::{TestStore, eventually};

#[tokio::test]
async fn processes_know_of_each_other_by_the_store_alone() {
    let store = TestStore::new();
    let (one, other) = (store.process(), store.process());
    let guard = one.lock("k").fenced().acquire().await.unwrap();
    let info = other.inspect("k").await.unwrap().unwrap();
    assert_eq!(info.holder, guard.owner());
    let waiter = tokio::spawn(other.lock("k").fenced().acquire());
    let waits = async || one.inspect("k").await.unwrap().is_some_and(|info| info.waiters == 1);
    eventually("the other one waits in the store's queue", waits).await;
    assert_eq!(one.inspect("k").await.unwrap().unwrap().waiters_here, 0, "not in this process");
    let first = guard.fencing_token().unwrap();
    guard.release().await.unwrap();
    let next = waiter.await.unwrap().unwrap();
    assert!(next.fencing_token().unwrap() > first);
    next.release().await.unwrap();
}

#[tokio::test]
async fn each_store_is_a_place_of_its_own() {
    let (one, other) = (TestStore::new().process(), TestStore::new().process());
    let _guard = one.lock("k").acquire().await.unwrap();
    assert!(other.lock("k").try_acquire().await.unwrap().is_some());
}

/// No request waits for a process that died while it waited.
#[tokio::test]
async fn a_process_that_ends_leaves_the_queue() {
    let store = TestStore::new();
    let (one, other, third) = (store.process(), store.process(), store.process());
    let guard = one.lock("k").acquire().await.unwrap();
    let gone = tokio::spawn(other.lock("k").acquire());
    let waiters = async |count| one.inspect("k").await.unwrap().is_some_and(|info| info.waiters == count);
    eventually("it waits", async || waiters(1).await).await;
    gone.abort();
    drop(gone.await);
    drop(other);
    let next = tokio::spawn(third.lock("k").acquire());
    guard.release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_leader_follows_the_other() {
    let store = TestStore::new();
    let lead =
        async |manager: LockManager| manager.leader("office").run(async |lead| lead.term()).await.unwrap();
    let first = lead(store.process()).await;
    assert!(lead(store.process()).await > first);
}
