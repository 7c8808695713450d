//! The manager is shut down while locks are held and requested.

use std::time::Duration;

use distlock::LockError;
use distlock_tests::{Backend, eventually, until_waiting};

use super::LONG;

distlock_tests::suite![
    new_acquires_are_refused,
    waiting_acquires_are_refused,
    a_holder_runs_until_the_end_of_the_grace_and_is_stopped_then,
    a_holder_that_ends_in_time_is_not_disturbed,
    a_shutdown_releases_what_dropped_guards_left,
];

async fn new_acquires_are_refused(backend: Backend) {
    let manager = backend.manager().await;
    manager.shutdown(Duration::ZERO).await;
    for refused in
        [manager.lock("k").acquire().await.map(drop), manager.lock("k").try_acquire().await.map(drop)]
    {
        assert!(matches!(refused, Err(LockError::Closed)), "{refused:?}");
    }
}

async fn waiting_acquires_are_refused(backend: Backend) {
    let manager = backend.manager().await;
    let guard = manager.lock("k").acquire().await.unwrap();
    let other = manager.clone();
    let waiter = tokio::spawn(async move { other.lock("k").wait(LONG).acquire().await.map(drop) });
    until_waiting(&manager, "k", 1).await;
    let closing = manager.clone();
    let shutdown = tokio::spawn(async move { closing.shutdown(LONG).await });
    let refused = waiter.await.unwrap();
    assert!(matches!(refused, Err(LockError::Closed)), "{refused:?}");
    guard.release().await.unwrap();
    shutdown.await.unwrap();
}

async fn a_holder_runs_until_the_end_of_the_grace_and_is_stopped_then(backend: Backend) {
    let (manager, looking) = (backend.manager().await, backend.manager().await);
    let (sender, started) = tokio::sync::oneshot::channel();
    let holder = manager.clone();
    let body = tokio::spawn(async move {
        let body = async |_| {
            sender.send(()).unwrap();
            std::future::pending::<()>().await;
        };
        holder.lock("k").ttl(LONG).run(body).await
    });
    started.await.unwrap();
    manager.shutdown(Duration::from_millis(200)).await;
    let error = body.await.unwrap().unwrap_err();
    let LockError::Lost { reason, .. } = &error else { panic!("{error:?}") };
    assert_eq!(format!("{reason:?}"), "Shutdown");
    if !backend.is_memory() {
        eventually("the key is released, long before its ttl", async || {
            looking.inspect("k").await.unwrap().is_none()
        })
        .await;
        backend.has_no_residue().await;
    }
}

async fn a_holder_that_ends_in_time_is_not_disturbed(backend: Backend) {
    let manager = backend.manager().await;
    let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
    let closing = manager.clone();
    let shutdown = tokio::spawn(async move { closing.shutdown(LONG).await });
    eventually("it is closing", async || manager.lock("other").no_wait().acquire().await.is_err()).await;
    guard.check().unwrap();
    guard.release().await.unwrap();
    tokio::time::timeout(super::SOON, shutdown).await.expect("nothing left to wait for").unwrap();
}

async fn a_shutdown_releases_what_dropped_guards_left(backend: Backend) {
    let manager = backend.manager().await;
    for number in 0..20 {
        drop(manager.lock(format!("k{number}")).ttl(LONG).acquire().await.unwrap());
    }
    manager.shutdown(super::SOON).await;
    for server in backend.servers() {
        assert_eq!(distlock_tests::residue::keys_below(server, backend.prefix()), Vec::<String>::new());
    }
}
