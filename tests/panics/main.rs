//! Panics of the program's code that the library calls: a log subscriber, and the wakers of tasks. Renewal and waits
//! continue. If the manager's thread ends nevertheless, all callers get an error.
//!
//! The subscriber of this process panics at every event that the manager's thread reports.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod subscriber;
mod wakers;

use std::time::{Duration, Instant};

use distlock::{LockError, LockManager, LostReason};
use distlock_tests::{Backend, RedisServer, eventually, until_renewed};

/// Much longer than any test runs.
const LONG: Duration = Duration::from_secs(600);
/// With a margin for a busy machine.
const SOON: Duration = Duration::from_secs(60);
/// Long enough for a busy machine to renew it in time.
const TTL: Duration = Duration::from_secs(3);

distlock_tests::suite![renewal_and_waits_survive_a_subscriber_that_panics];

async fn renewal_and_waits_survive_a_subscriber_that_panics(backend: Backend) {
    let before = subscriber::start();
    let (manager, other) = (backend.manager().await, backend.manager().await);
    let guard = manager.lock("k").ttl(TTL).acquire().await.unwrap();
    let began = Instant::now();
    while began.elapsed() < TTL {
        until_renewed(&guard).await;
        let busy = other.lock("k").wait(Duration::from_millis(200)).acquire().await.unwrap_err();
        assert!(busy.is_busy(), "{busy}");
    }
    assert!(subscriber::panics() > before, "the renewals were reported");
    guard.release().await.unwrap();
    let lost = manager.lock("k").ttl(TTL / 3).no_renew().run(async |_| std::future::pending::<()>().await);
    let lost = tokio::time::timeout(SOON, lost).await.expect("the body is stopped").unwrap_err();
    assert!(matches!(lost, LockError::Lost { reason: LostReason::Expired, .. }), "{lost}");
    backend.is_clean("k").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_made_again_although_every_report_of_it_panics() {
    subscriber::start();
    let mut server = RedisServer::options().append_only().start();
    let manager = LockManager::connect(server.url()).await.unwrap();
    for _ in 0..2 {
        let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
        let before = subscriber::panics();
        server.restart();
        eventually("the loss of the link is reported", async || subscriber::panics() > before).await;
        let other = manager.lock("other").wait(SOON).acquire().await.unwrap();
        guard.check().unwrap();
        guard.release().await.unwrap();
        other.release().await.unwrap();
    }
    distlock_tests::residue::none(&server).await;
}
