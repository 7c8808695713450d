//! The key for the queue of a lock contains a value of another program. A request that must wait gets an error with the
//! key and the remedy. Other requests are not affected.

use distlock_tests::{RedisServer, until_waiting};

use super::{LONG, SOON, assert_says, assert_unavailable, connect};

/// `make` is the command that creates the value at `place`.
async fn only_who_must_wait_is_told(place: &str, make: &[&str]) {
    let server = RedisServer::start();
    server.raw(make);
    let (one, other) = (connect(&server).await, connect(&server).await);
    let guard = one.lock("k").acquire().await.unwrap();
    let waiting = tokio::time::timeout(SOON, other.lock("k").wait(LONG).acquire());
    let error = waiting.await.expect("at once").unwrap_err();
    assert_unavailable(&error);
    assert_says(&error, &format!("`{place}`"));
    assert_says(&error, "delete it");
    guard.release().await.unwrap();
    one.lock("k").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(server.keys(), [place], "nothing of the refused waiter is left");
    server.raw(&["DEL", place]);
    let guard = one.lock("k").acquire().await.unwrap();
    let waiter = tokio::spawn(async move { other.lock("k").wait(LONG).acquire().await });
    until_waiting(&one, "k", 1).await;
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn the_queue_is_somebody_elses() {
    only_who_must_wait_is_told("dl1:q:k", &["SET", "dl1:q:k", "foreign"]).await;
}

#[tokio::test]
async fn the_entries_are_somebody_elses() {
    only_who_must_wait_is_told("dl1:e:k", &["SET", "dl1:e:k", "foreign"]).await;
}
