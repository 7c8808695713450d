//! Users who may not ask: fewer columns, and the locks work all the same.

use distlock::LockManager;
use distlock_tests::{RedisServer, until_waiting};

use super::{LONG, all};

/// What README.md says is the least that a lock needs.
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
    let guard = one.lock("k").label("checkout").acquire().await.unwrap();
    let waits = tokio::spawn(two.lock("k").wait(LONG).acquire());
    until_waiting(&one, "k", 1).await;
    let eye = connect(&server).await;
    let info = eye.inspect("k").await.unwrap().unwrap();
    assert_eq!(info.holders[0].label.as_deref(), Some("checkout"), "its holder was asked: {info:?}");
    assert_eq!((info.waiters, info.waiting.len()), (1, 0), "the queue may not be read");
    let error = all(eye.list("*")).await.unwrap_err();
    assert!(error.to_string().contains("+pubsub|channels"), "{error}");
    guard.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_commands_more_show_everything() {
    let server = RedisServer::options().user("worker", &format!("{LEAST} +lrange +pubsub|channels")).start();
    let (one, two) = (connect(&server).await, connect(&server).await);
    let guard = one.lock("k").acquire().await.unwrap();
    let waits = tokio::spawn(two.lock("k").label("refund").wait(LONG).acquire());
    until_waiting(&one, "k", 1).await;
    let eye = connect(&server).await;
    let info = eye.inspect("k").await.unwrap().unwrap();
    assert_eq!(info.waiting[0].label.as_deref(), Some("refund"), "{info:?}");
    let (entries, unanswered) = all(eye.list("*")).await.unwrap();
    assert_eq!((entries.len(), unanswered.len()), (1, 0));
    drop(guard);
    waits.await.unwrap().unwrap().release().await.unwrap();
}

/// Without pub/sub nobody can be asked, and nobody is waited for.
#[tokio::test(flavor = "multi_thread")]
async fn without_pub_sub_the_store_alone_is_asked() {
    let server = RedisServer::options().user("worker", "on >secret ~* resetchannels +@all -@pubsub").start();
    let (one, eye) = (connect(&server).await, connect(&server).await);
    let guard = one.lock("k").acquire().await.unwrap();
    let info = eye.inspect("k").await.unwrap().unwrap();
    assert!(info.holders[0].client.is_some() && info.holders[0].since.is_none(), "{info:?}");
    assert_eq!(info.unanswered.len(), 1);
    guard.release().await.unwrap();
}
