//! The content of the items, and how long they last.

use std::time::{Duration, Instant};

use distlock_fixtures::MemcachedServer;

use crate::each_store::{LONG, manager};

fn seconds_left(server: &MemcachedServer, key: &str) -> Option<u64> {
    server.ask(&format!("mg dl1:{key} t"), &["HD", "EN"]).concat().strip_prefix("HD t")?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_not_taken_for_what_is_cached_under_its_key() {
    let server = MemcachedServer::start();
    assert_eq!(server.ask("set order:42 0 0 5\r\nhello", &["STORED"]), ["STORED"]);
    let manager = manager(&server.url()).await;
    let guard = manager.lock("order:42").no_wait().acquire().await.unwrap();
    assert_eq!(server.ask("mg order:42 v", &["hello", "EN"]), ["VA 5", "hello"]);
    guard.release().await.unwrap();
    assert_eq!(server.keys(), ["order%3A42"]);
}

/// The server ends an item up to two seconds early. Nevertheless, the holder can rely on its ttl.
#[tokio::test(flavor = "multi_thread")]
async fn an_item_outlives_what_its_holder_relies_on() {
    let server = MemcachedServer::start();
    let (one, other) = (manager(&server.url()).await, manager(&server.url()).await);
    for ttl in [1_000, 1_100, 1_900, 2_000].map(Duration::from_millis) {
        let asked = Instant::now();
        let guard = one.lock("k").ttl(ttl).no_renew().acquire().await.unwrap();
        let left = seconds_left(&server, "k");
        assert!(left.is_none_or(|left| left <= ttl.as_secs() + 5), "{ttl:?}: {left:?} s");
        let next = other.lock("k").wait(LONG).acquire().await.unwrap();
        assert!(asked.elapsed() >= ttl, "{ttl:?}: {:?}", asked.elapsed());
        assert!(!guard.is_held(), "{ttl:?}");
        next.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_neither_shortens_a_lease_nor_lets_it_grow() {
    let server = MemcachedServer::start();
    let manager = manager(&server.url()).await;
    let guard = manager.lock("k").ttl(Duration::from_secs(1)).acquire().await.unwrap();
    guard.extend(Duration::from_secs(30)).await.unwrap();
    let first = seconds_left(&server, "k").unwrap();
    assert!((28..=35).contains(&first), "{first}");
    // After many renewals. On a slow machine, the rest of the item may be shorter by the time that has passed.
    let begun = Instant::now();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let later = seconds_left(&server, "k").unwrap();
    let passed = begun.elapsed().as_secs() + 3;
    assert!(later < first && later + passed >= first, "{first}, then {later}");
    guard.check().unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_kept_after_its_release_is_free_in_the_end() {
    let server = MemcachedServer::start();
    let (one, other) = (manager(&server.url()).await, manager(&server.url()).await);
    let kept = Duration::from_millis(1_500);
    let begun = Instant::now();
    let guard = one.lock("k").min_hold(kept).acquire().await.unwrap();
    guard.release().await.unwrap();
    let next = other.lock("k").wait(LONG).acquire().await.unwrap();
    assert!(begun.elapsed() >= kept, "{:?}", begun.elapsed());
    next.release().await.unwrap();
    assert_eq!(server.keys(), [""; 0]);
}
