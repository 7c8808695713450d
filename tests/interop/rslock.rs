//! The crate rslock, which uses the same protocol if it has a single server.

use std::time::Duration;

use distlock_tests::{RedisServer, Section, Tally, shared_clock};
use rslock::{LockError, LockManager};

use crate::interop::judge::{FOREIGN, KEY, Ours, TALLY, TTL, judge};

async fn redeem() {}

/// The book shows these lines: `docs/book/src/coming-from.md`.
async fn as_in_the_book(manager: &LockManager) -> Result<(), LockError> {
    let lock = manager.acquire("points:42", Duration::from_secs(10)).await?;
    redeem().await;
    lock.release().await;
    Ok(())
}

async fn sections(url: String) -> Vec<Section> {
    let manager = LockManager::new(vec![url.as_str()]);
    let mut connection = redis::Client::open(url.as_str()).unwrap().get_connection().unwrap();
    let mut sections = Vec::new();
    for _ in 0..FOREIGN {
        let lock = manager.acquire(KEY, TTL).await.unwrap();
        let entered = shared_clock();
        Tally::increment_key(&mut connection, TALLY);
        let left = shared_clock();
        lock.release().await;
        sections.push(Section::new("rslock", KEY, entered, left));
    }
    sections
}

#[tokio::test(flavor = "multi_thread")]
async fn its_lock_and_our_waiters_exclude_each_other_and_both_make_progress() {
    let server = RedisServer::start();
    let ours = Ours::begin(&server).await;
    let foreign = sections(server.url()).await;
    judge(&server, ours.end().await, foreign).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_book_shows_takes_the_same_key() {
    let server = RedisServer::start();
    let theirs = LockManager::new(vec![server.url().as_str()]);
    let ours = distlock::LockManager::connect(&server.url()).await.unwrap();
    as_in_the_book(&theirs).await.unwrap();
    let lock = theirs.acquire("points:42", TTL).await.unwrap();
    assert!(ours.lock("points:42").try_acquire().await.unwrap().is_none());
    lock.release().await;
    let guard = ours.lock("points:42").no_wait().acquire().await.unwrap();
    assert!(theirs.lock("points:42", TTL).await.is_err());
    guard.release().await.unwrap();
}

/// A guard of rslock that is dropped keeps the key until its ttl ends. The table in the book has this row.
#[tokio::test(flavor = "multi_thread")]
async fn its_guard_keeps_the_lock_when_it_is_dropped() {
    let server = RedisServer::start();
    let theirs = LockManager::new(vec![server.url().as_str()]);
    drop(theirs.acquire(KEY, TTL).await.unwrap());
    assert!(server.exists(KEY));
}
