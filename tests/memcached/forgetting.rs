//! Items that the server has forgotten: their holders notice it, and do not release the lock of another holder.

use std::time::{Duration, Instant};

use distlock::{LockError, LockManager, LostReason};
use distlock_fixtures::{BOUND, MemcachedServer};

use crate::each_store::{LONG, manager};

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_item_was_evicted_is_told_with_its_next_renewal() {
    let server = MemcachedServer::with(&["-m", "2"]);
    let manager = manager(&server.url()).await;
    let ttl = Duration::from_secs(60);
    let guard = manager.lock("k").ttl(ttl).acquire().await.unwrap();
    let start = Instant::now();
    let (mut number, mut batches) = (0, 8);
    let lost = loop {
        assert!(start.elapsed() < BOUND, "{number} other items do not drive it out");
        for _ in 0..batches {
            // More items of this size than fit.
            let mut items = String::new();
            for _ in 0..20_000 {
                number += 1;
                items.push_str(&format!("set other{number} 0 0 20 noreply\r\n{number:020}\r\n"));
            }
            let _answered = server.ask(&format!("{items}version"), &["VERSION"]);
        }
        // The renewal that comes by itself would be the first one after twenty seconds.
        if let Err(error) = guard.extend(ttl).await {
            break error;
        }
        // It is the newest item again.
        batches *= 2;
    };
    assert!(matches!(lost, LockError::Lost { reason: LostReason::Taken, .. }), "{lost:?}");
}

/// Writes items of every size that a lock may have, until the server has refused each size.
fn fill(server: &MemcachedServer) {
    let mut number = 0;
    for size in (1..200).step_by(8) {
        let value = "x".repeat(size);
        let is_full = |server: &MemcachedServer, number: u32| {
            server
                .ask(&format!("set one{number} 0 0 {size}\r\n{value}"), &["STORED", "SERVER_ERROR"])
                .concat()
                != "STORED"
        };
        while !is_full(server, number) {
            let mut items = String::new();
            for _ in 0..1_000 {
                number += 1;
                items.push_str(&format!("set other{number} 0 0 {size} noreply\r\n{value}\r\n"));
            }
            let _answered = server.ask(&format!("{items}version"), &["VERSION"]);
        }
    }
}

/// Memcached removes the item of a key if it has no memory for an `ms` of this key.
#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_server_no_contender_removes_a_lock_that_is_held() {
    let server = MemcachedServer::with(&["-M", "-m", "2"]);
    let one = manager(&server.url()).await;
    let contender = LockManager::builder().url(server.url()).unavailable_after(Duration::from_millis(200));
    let contender = contender.connect().await.unwrap();
    let mut guards = Vec::new();
    for key in ["k", "g\u{fc}nther", "a b"] {
        guards.push((key, one.lock(key).ttl(LONG).acquire().await.unwrap()));
    }
    fill(&server);
    for (key, guard) in guards {
        let owner = one.inspect(key).await.unwrap().unwrap().holder;
        for _ in 0..4 {
            let got = contender.lock(key).try_acquire().await;
            // A key with a space is written by `ms`, whose refusal is not followed by a look at the item.
            let is_refused = key.contains(' ') && got.as_ref().is_err_and(|error| error.is_unavailable());
            assert!(is_refused || got.as_ref().is_ok_and(Option::is_none), "{key}: {got:?}");
            let lock = one.inspect(key).await.unwrap().unwrap_or_else(|| panic!("{key} is gone"));
            assert_eq!(lock.holder, owner, "{key}");
        }
        guard.check().unwrap();
        let waits = contender.lock(key).wait(LONG).acquire();
        let (released, next) = tokio::join!(guard.release(), waits);
        released.unwrap();
        next.unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_forgets_all_and_every_holder_is_told() {
    let mut server = MemcachedServer::start();
    let (one, other) = (manager(&server.url()).await, manager(&server.url()).await);
    let guard = one.lock("k").ttl(LONG).acquire().await.unwrap();
    server.restart();
    guard.lost().await;
    let next = other.lock("k").wait(LONG).acquire().await.unwrap();
    // Versions restart, so the item of the second holder may have the version that the first holder remembers.
    drop(guard);
    one.lock("elsewhere").acquire().await.unwrap().release().await.unwrap();
    assert!(one.lock("k").try_acquire().await.unwrap().is_none());
    next.check().unwrap();
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_flushed_is_lost_and_can_be_taken_again() {
    let server = MemcachedServer::start();
    let (one, other) = (manager(&server.url()).await, manager(&server.url()).await);
    let guard = one.lock("k").ttl(Duration::from_secs(2)).acquire().await.unwrap();
    server.ask("flush_all", &["OK"]);
    let next = other.lock("k").wait(LONG).acquire().await.unwrap();
    guard.lost().await;
    drop(guard);
    next.check().unwrap();
    next.release().await.unwrap();
}

/// The server cannot detect a late command. The lock that it acquires becomes free when its ttl is over.
#[tokio::test(flavor = "multi_thread")]
async fn an_acquisition_that_is_carried_out_too_late_ends_with_its_ttl() {
    let server = MemcachedServer::start();
    let (one, other) = (manager(&server.url()).await, manager(&server.url()).await);
    one.lock("k").acquire().await.unwrap().release().await.unwrap();
    server.stop();
    let request = one.lock("k").ttl(Duration::from_secs(2)).wait(Duration::from_secs(1)).acquire();
    let got = tokio::time::timeout(Duration::from_secs(8), request).await;
    assert!(got.is_err() || got.is_ok_and(|got| got.is_err()));
    drop(one);
    server.cont();
    let next = other.lock("k").wait(LONG).acquire().await.unwrap();
    next.release().await.unwrap();
}
