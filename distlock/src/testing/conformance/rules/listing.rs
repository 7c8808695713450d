//! Lists of all locks and their holders.

use std::time::Duration;

use crate::testing::conformance::Place;
use crate::testing::eventually;
use crate::{LockEntry, LockManager};

/// All entries, once every server has answered.
async fn listed(manager: &LockManager, pattern: &str) -> Vec<LockEntry> {
    let mut found = Vec::new();
    eventually("every server answers", async || {
        let mut locks = manager.list(pattern);
        found.clear();
        while let Some(entry) = locks.next().await {
            found.push(entry.unwrap());
        }
        locks.unanswered().is_empty()
    })
    .await;
    found
}

fn keys(entries: &[LockEntry]) -> Vec<&str> {
    let mut keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
    keys.sort_unstable();
    keys
}

pub async fn a_list_shows_the_locks_of_all_managers_once_each(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    assert_eq!(keys(&listed(&one, "*").await), [""; 0]);
    let guards = one.lock_all(["order:1", "order:2", "user:1"]).acquire().await.unwrap();
    let another = other.lock("order:3").label("export").acquire().await.unwrap();
    let found = listed(&other, "*").await;
    assert_eq!(keys(&found), ["order:1", "order:2", "order:3", "user:1"]);
    for entry in &found {
        assert_eq!(entry.full_key, format!("{}{}", place.prefix(), entry.key));
        assert_eq!(entry.holders.len(), 1, "{entry:?}");
        let client = entry.holders[0].client.as_ref().expect("a holder of this test");
        // A store that lists the locks itself need not know the process.
        assert!(client.pid.is_none_or(|pid| pid == std::process::id()), "{entry:?}");
    }
    let own = found.iter().find(|entry| entry.key == "order:3").unwrap();
    assert_eq!(own.holders[0].label.as_deref(), Some("export"), "its own process knows it");
    guards.release().await.unwrap();
    another.release().await.unwrap();
    assert_eq!(keys(&listed(&one, "*").await), [""; 0]);
    place.is_clean("order:1").await;
}

pub async fn a_list_leaves_out_what_its_pattern_does_not_match(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let all = ["a*b", "axb", "order:1", "order:12", "user:1", "\u{e4}:1", "with blanks", "100%"];
    let guards = one.lock_all(all).acquire().await.unwrap();
    assert_eq!(keys(&listed(&other, "order:*").await), ["order:1", "order:12"]);
    assert_eq!(keys(&listed(&other, "order:?").await), ["order:1"]);
    assert_eq!(keys(&listed(&other, "?:1").await), ["\u{e4}:1"]);
    assert_eq!(keys(&listed(&other, "a\\*b").await), ["a*b"]);
    assert_eq!(keys(&listed(&other, "with blanks").await), ["with blanks"]);
    assert_eq!(listed(&other, "*").await.len(), all.len());
    guards.release().await.unwrap();
}

pub async fn a_list_shows_who_waits(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let guard = one.lock("k").acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("k").label("late").wait(Duration::from_secs(600)).acquire());
    place.until_waiting(&one, &other, "k", 1).await;
    // The waiter's own process knows of it on every store.
    let found = listed(&other, "k").await;
    assert_eq!((found.len(), found[0].waiting.len()), (1, 1), "{found:?}");
    assert_eq!(found[0].waiting[0].label.as_deref(), Some("late"));
    let info = other.inspect("k").await.unwrap().expect("it is held");
    assert_eq!(info.waiting.len(), 1, "{info:?}");
    assert!(info.waiting[0].since.is_some() && info.waiting[0].requests == Some(1), "{info:?}");
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

pub async fn a_long_list_comes_whole(place: Place) {
    let (one, other) = (place.manager().await, place.manager().await);
    let all: Vec<String> = (0..1_100).map(|number| format!("k:{number:04}")).collect();
    // Stores that take one lock after the other need their time for this many.
    let patience = Duration::from_secs(600);
    let guards = one.lock_all(&all).ttl(patience).wait(patience).acquire().await.unwrap();
    let found = listed(&other, "k:*").await;
    assert_eq!(keys(&found), all);
    guards.release().await.unwrap();
}
