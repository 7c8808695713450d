//! Users that lack permissions for the list: it has fewer columns, and the locks still work.

use distlock::LockManager;
use distlock_tests::{RedisServer, eventually, until_waiting};

use super::{LONG, SHORT, all};

/// The minimum permissions for a lock in docs/redis.md.
const LEAST: &str = "on >secret ~shop:* &shop:* +evalsha +eval +set +get +del +pexpire +pttl +time +ping \
                     +publish +subscribe +unsubscribe +hset +hget +hdel +rpush +lpush +lpop +lrem +lindex +llen";

async fn connect(server: &RedisServer) -> LockManager {
    let builder = LockManager::builder().url(server.url_as("worker", "secret")).key_prefix("shop:");
    builder.connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_least_privileges_show_holders_and_name_what_the_list_lacks() {
    let server = RedisServer::options().user("worker", LEAST).start();
    let (one, two) = (connect(&server).await, connect(&server).await);
    let guard = one.lock("k").label("checkout").ttl(SHORT).acquire().await.unwrap();
    let waits = tokio::spawn(two.lock("k").wait(LONG).acquire());
    until_waiting(&one, "k", 1).await;
    let eye = connect(&server).await;
    eventually("it has written its label", async || {
        let info = eye.inspect("k").await.unwrap().unwrap();
        assert_eq!((info.waiters, info.waiting.len()), (1, 0), "the queue may not be read");
        assert_eq!(info.holders[0].client.as_ref().unwrap().pid, Some(std::process::id()));
        info.holders[0].label.as_deref() == Some("checkout")
    })
    .await;
    let error = all(eye.list("*")).await.unwrap_err();
    assert!(error.to_string().contains("`+scan`"), "{error}");
    guard.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_counts_the_waiters_that_it_may_not_name() {
    let server = RedisServer::options().user("worker", &format!("{LEAST} +scan")).start();
    let (one, two) = (connect(&server).await, connect(&server).await);
    let guard = one.lock("k").acquire().await.unwrap();
    let waits = tokio::spawn(two.lock("k").wait(LONG).acquire());
    until_waiting(&one, "k", 1).await;
    let (entries, _) = all(connect(&server).await.list("*")).await.unwrap();
    assert_eq!((entries.len(), entries[0].waiters, entries[0].waiting.len()), (1, 1, 0), "{entries:?}");
    // It has named the process that it is itself.
    let (entries, _) = all(two.list("*")).await.unwrap();
    assert_eq!((entries.len(), entries[0].waiters, entries[0].waiting.len()), (1, 1, 1), "{entries:?}");
    drop(guard);
    waits.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_commands_more_show_everything() {
    let server = RedisServer::options().user("worker", &format!("{LEAST} +lrange +scan")).start();
    let (one, two) = (connect(&server).await, connect(&server).await);
    let guard = one.lock("k").acquire().await.unwrap();
    let waits = tokio::spawn(two.lock("k").wait(LONG).acquire());
    until_waiting(&one, "k", 1).await;
    // A lock of another deployment, whose keys this user may not read.
    server.raw(&["SET", "bank:k", "dl1:other.1:1", "PX", "600000"]);
    let eye = connect(&server).await;
    let (entries, silent) = all(eye.list("*")).await.unwrap();
    assert_eq!((entries.len(), entries[0].waiting.len(), silent.len()), (1, 1, 0), "{entries:?}");
    drop(guard);
    waits.await.unwrap().unwrap().release().await.unwrap();
}

/// Keys that the user may not read are not its locks.
#[tokio::test(flavor = "multi_thread")]
async fn keys_of_others_are_left_out() {
    let server = RedisServer::options().user("worker", "on >secret ~shop:* ~dl1:* &* +@all").start();
    server.raw(&["SET", "bank:k", "dl1:other.1:1", "PX", "600000"]);
    let one = LockManager::connect(server.url_as("worker", "secret")).await.unwrap();
    let guard = one.lock("shop:k").acquire().await.unwrap();
    let (entries, _) = all(one.list("*")).await.unwrap();
    assert_eq!(entries.iter().map(|entry| &*entry.key).collect::<Vec<_>>(), ["shop:k"]);
    guard.release().await.unwrap();
}
