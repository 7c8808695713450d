//! Items that the server has forgotten: their holders notice it, and do not release the lock of another holder.

use std::time::{Duration, Instant};

use distlock_fixtures::{BOUND, MemcachedServer};

use crate::each_store::{LONG, manager};

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_item_was_evicted_is_told_with_its_next_renewal() {
    let server = MemcachedServer::with(&["-m", "2"]);
    let manager = manager(&server.url()).await;
    let guard = manager.lock("k").ttl(Duration::from_secs(3)).acquire().await.unwrap();
    let start = Instant::now();
    let mut number = 0;
    while guard.is_held() {
        assert!(start.elapsed() < BOUND, "{number} other items do not drive it out");
        // More items of this size than fit.
        let mut items = String::new();
        for _ in 0..20_000 {
            number += 1;
            items.push_str(&format!("set other{number} 0 0 20 noreply\r\n{number:020}\r\n"));
        }
        let _answered = server.ask(&format!("{items}version"), &["VERSION"]);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(guard.lost().await.is_lost());
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
