//! Many locks.

use distlock_tests::{RedisServer, eventually};

use super::{LONG, all, client};

/// Far more locks than one page has are listed in order, and none twice.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_locks_come_in_order_and_once() {
    let server = RedisServer::start();
    let (one, eye) = (client(&server.url(), "one").await, client(&server.url(), "eye").await);
    let keys: Vec<String> = (0..10_000).map(|number| format!("order:{number:05}")).collect();
    let guards = one.lock_all(&keys).ttl(LONG).acquire().await.unwrap();
    let mut locks = eye.list("*");
    let mut seen = Vec::new();
    while let Some(entry) = locks.next().await {
        seen.push(entry.unwrap().key);
    }
    assert!(locks.unread().is_empty());
    assert_eq!(seen, keys);
    let (some, _) = all(eye.list("order:0999?")).await.unwrap();
    assert_eq!(some.len(), 10);
    guards.release().await.unwrap();
}

/// A list without a reader causes no work, and its end frees its memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_not_read_waits_and_may_be_dropped() {
    let server = RedisServer::start();
    let (one, eye) = (client(&server.url(), "one").await, client(&server.url(), "eye").await);
    let keys: Vec<String> = (0..3_000).map(|number| format!("order:{number:05}")).collect();
    let _guards = one.lock_all(&keys).ttl(LONG).acquire().await.unwrap();
    let before = server.calls("get");
    let mut locks = eye.list("*");
    assert_eq!(locks.next().await.unwrap().unwrap().key, keys[0]);
    // Each lock is read by a GET. The number of entries that are read ahead is limited, so the reads stop.
    let mut last = 0;
    eventually("it waits", async || {
        let read = server.calls("get");
        std::mem::replace(&mut last, read) == read
    })
    .await;
    assert!(last - before < 1_000, "{} keys were read", last - before);
    drop(locks);
    assert_eq!(all(eye.list("*")).await.unwrap().0.len(), 3_000);
}
