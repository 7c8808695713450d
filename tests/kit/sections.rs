//! Counting sections.

use std::panic::{AssertUnwindSafe, catch_unwind};

use distlock::LockManager;
use distlock::testing::{Sections, TestStore, lose};

#[tokio::test]
async fn holders_that_share_a_lock_are_inside_at_once() {
    let manager = LockManager::in_memory();
    let sections = Sections::of([&manager]);
    let readers = [
        manager.lock("k").shared().acquire().await.unwrap(),
        manager.lock("k").shared().acquire().await.unwrap(),
    ];
    assert_eq!(sections.count("k").running, 2);
    for reader in readers {
        reader.release().await.unwrap();
    }
    let count = sections.count("k");
    assert_eq!((count.begun, count.most_at_once, count.running, count.lost), (2, 2, 0, 0));
    assert_eq!(sections.count("other").begun, 0);
}

#[tokio::test]
async fn a_lock_that_is_lost_is_not_inside_any_more() {
    let manager = LockManager::in_memory();
    let sections = Sections::of([&manager]);
    let guard = manager.lock("k").acquire().await.unwrap();
    assert!(lose(&manager, "k"));
    let count = sections.count("k");
    assert_eq!((count.running, count.lost), (0, 1));
    drop(guard);
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
    let count = sections.count("k");
    assert_eq!((count.begun, count.most_at_once, count.running, count.lost), (2, 1, 0, 1));
}

#[tokio::test]
async fn a_section_that_is_entered_again_is_one() {
    let manager = LockManager::in_memory();
    let sections = Sections::of([&manager]);
    let inner = async |_| manager.lock("k").reentrant().run(async |_| {}).await;
    manager.lock("k").run(inner).await.unwrap().unwrap();
    let count = sections.count("k");
    assert_eq!((count.begun, count.most_at_once, count.running), (1, 1, 0));
}

/// A hand-off is not an overlap, although the next section may begin before the reply to the release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hand_offs_between_processes_do_not_overlap() {
    let store = TestStore::new();
    let managers = [store.process(), store.process(), store.process()];
    let sections = Sections::of(&managers);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..60 {
        let request = managers[number % 3].lock("k");
        tasks.spawn(async move { request.run(async |_| tokio::task::yield_now().await).await.unwrap() });
    }
    tasks.join_all().await;
    let count = sections.count("k");
    assert_eq!((count.begun, count.most_at_once, count.running, count.lost), (60, 1, 0, 0));
}

#[test]
fn a_manager_is_counted_once() {
    let manager = LockManager::in_memory();
    let _sections = Sections::of([&manager]);
    assert!(catch_unwind(AssertUnwindSafe(|| Sections::of([&manager]))).is_err());
}
