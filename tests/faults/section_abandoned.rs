//! A section that is dropped, is aborted, times out or panics releases its lock, even if tasks and threads that the
//! body has spawned have handles to it. The handles report the loss.

use std::sync::mpsc;
use std::time::Duration;

use distlock::{Held, LockError, LockManager, LostReason, distributed_lock};
use distlock_tests::{Backend, eventually};
use tokio::sync::oneshot;

use super::{LONG, SOON};

distlock_tests::suite![
    an_aborted_section_gives_back_what_a_child_still_has,
    a_section_that_panics_gives_back_what_a_child_still_has,
    a_section_that_times_out_gives_back_all_its_keys,
    a_thread_that_panics_gives_back_what_a_child_still_has,
    an_annotated_call_that_is_dropped_tells_its_children,
    an_inner_section_that_is_dropped_leaves_the_lock_to_the_outer_one,
    a_section_that_ends_in_order_tells_its_children_only_when_they_ask;
    not on quorum:
    a_shared_section_that_is_dropped_gives_back_its_share,
];

/// Runs a section that sends its handle to the test, and never ends.
async fn hand_out(manager: LockManager, to: oneshot::Sender<Held>) {
    let section = manager.lock("k").ttl(LONG).run(async |held| {
        assert!(to.send(held.clone()).is_ok());
        std::future::pending::<()>().await;
    });
    section.await.unwrap();
}

async fn is_told(child: &Held) {
    assert!(!child.is_held() && child.remaining().is_zero());
    let checked = child.check().unwrap_err();
    assert!(matches!(checked, LockError::Lost { reason: LostReason::Released, .. }), "{checked:?}");
    let lost = tokio::time::timeout(SOON, child.lost()).await.expect("it is told");
    assert!(matches!(lost, LockError::Lost { reason: LostReason::Released, .. }), "{lost:?}");
}

/// Another manager gets the lock, long before its ttl is over.
async fn is_free(backend: &Backend, key: &str) {
    let other = backend.manager().await;
    other.lock(key).wait(SOON).acquire().await.unwrap().release().await.unwrap();
    backend.is_clean(key).await;
}

async fn an_aborted_section_gives_back_what_a_child_still_has(backend: Backend) {
    let (to, handle) = oneshot::channel();
    let task = tokio::spawn(hand_out(backend.manager().await, to));
    let child = handle.await.unwrap();
    // This wait began before the section ends.
    let lost = tokio::spawn(child.lost());
    assert!(child.is_held());
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    is_told(&child).await;
    assert!(tokio::time::timeout(SOON, lost).await.expect("it is woken").unwrap().is_lost());
    is_free(&backend, "k").await;
    drop(child);
    backend.is_clean("k").await;
}

async fn a_section_that_panics_gives_back_what_a_child_still_has(backend: Backend) {
    let manager = backend.manager().await;
    let (to, handle) = oneshot::channel();
    let task = tokio::spawn(async move {
        let section = manager.lock("k").ttl(LONG).run(async |held| {
            assert!(to.send(held.clone()).is_ok());
            tokio::task::yield_now().await;
            panic!("the body panics");
        });
        section.await
    });
    let child = handle.await.unwrap();
    assert!(task.await.unwrap_err().is_panic());
    is_told(&child).await;
    is_free(&backend, "k").await;
}

async fn a_section_that_times_out_gives_back_all_its_keys(backend: Backend) {
    let manager = backend.manager().await;
    let (to, handle) = oneshot::channel();
    let section = manager.lock_all(["k", "l", "m"]).ttl(LONG).run(async |held| {
        assert!(to.send(held.clone()).is_ok());
        std::future::pending::<()>().await;
    });
    let mut section = Box::pin(section);
    let child = tokio::select! {
        ended = &mut section => panic!("{ended:?}"),
        child = handle => child.unwrap(),
    };
    assert!(tokio::time::timeout(Duration::from_millis(10), section).await.is_err());
    is_told(&child).await;
    for key in ["k", "l", "m"] {
        is_free(&backend, key).await;
    }
}

async fn a_thread_that_panics_gives_back_what_a_child_still_has(backend: Backend) {
    let manager = distlock::blocking::LockManager::from(backend.manager().await);
    let (to, handle) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let section = manager.lock("k").ttl(LONG).run(|held| {
            to.send(held.clone()).unwrap();
            panic!("the body panics");
        });
        section.unwrap();
    });
    let (panicked, child) =
        tokio::task::spawn_blocking(move || (thread.join().is_err(), handle.recv().unwrap())).await.unwrap();
    assert!(panicked);
    is_told(&child).await;
    is_free(&backend, "k").await;
}

#[distributed_lock(key = "k", ttl = "10m", guard = lock, manager = locks)]
async fn annotated(
    locks: LockManager,
    children: oneshot::Sender<tokio::task::JoinHandle<LockError>>,
) -> Result<(), LockError> {
    assert!(children.send(tokio::spawn(lock.lost())).is_ok());
    std::future::pending::<()>().await;
    Ok(())
}

async fn an_annotated_call_that_is_dropped_tells_its_children(backend: Backend) {
    let (to, child) = oneshot::channel();
    let task = tokio::spawn(annotated(backend.manager().await, to));
    let child = child.await.unwrap();
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    let lost = tokio::time::timeout(SOON, child).await.expect("it is told").unwrap();
    assert!(matches!(lost, LockError::Lost { reason: LostReason::Released, .. }), "{lost:?}");
    is_free(&backend, "k").await;
}

async fn an_inner_section_that_is_dropped_leaves_the_lock_to_the_outer_one(backend: Backend) {
    let (manager, other) = (backend.manager().await, backend.manager().await);
    let outer = manager.lock("k").ttl(LONG).run(async |held| {
        let mut inner = Box::pin(manager.lock("k").reentrant().run(async |inner| {
            assert!(inner.is_held());
            std::future::pending::<()>().await;
        }));
        std::future::poll_fn(|cx| {
            assert!(inner.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        drop(inner);
        assert!(held.is_held());
        // In memory, it is the same manager. A separate task is not nested.
        let other = other.clone();
        let attempt = tokio::spawn(async move { other.lock("k").try_acquire().await });
        assert!(attempt.await.unwrap().unwrap().is_none());
    });
    outer.await.unwrap();
    is_free(&backend, "k").await;
}

async fn a_section_that_ends_in_order_tells_its_children_only_when_they_ask(backend: Backend) {
    let manager = backend.manager().await;
    let child = manager.lock("k").ttl(LONG).run(async |held| held.clone()).await.unwrap();
    assert!(!child.is_held());
    assert!(child.check().unwrap_err().is_lost());
    is_free(&backend, "k").await;
    // The lock was not lost, so a task that awaits the loss is not woken.
    let lost = tokio::time::timeout(Duration::from_millis(50), child.lost()).await;
    assert!(lost.is_err(), "{lost:?}");
}

async fn a_shared_section_that_is_dropped_gives_back_its_share(backend: Backend) {
    let (manager, writer) = (backend.manager().await, backend.manager().await);
    let (to, handle) = oneshot::channel();
    let task = tokio::spawn(async move {
        let section = manager.lock("k").shared().ttl(LONG).run(async |held| {
            assert!(to.send(held.clone()).is_ok());
            std::future::pending::<()>().await;
        });
        section.await
    });
    let child = handle.await.unwrap();
    task.abort();
    eventually("the share is given back", async || writer.lock("k").try_acquire().await.unwrap().is_some())
        .await;
    is_told(&child).await;
    backend.is_clean("k").await;
}
