//! An ACL user without the permissions that a lock needs.

use std::time::Duration;

use distlock::{LockManager, LockManagerBuilder};
use distlock_tests::{Direction, Proxy, RedisServer, eventually, residue, until_renewed, until_waiting};

use super::{LONG, SOON, assert_says, assert_unavailable};

/// The minimum permissions in docs/redis.md.
const LEAST: &str = "on >secret ~shop:* &shop:* +evalsha +eval +set +get +del +pexpire +pttl +time +ping \
                     +publish +subscribe +unsubscribe +hset +hget +hdel +rpush +lpush +lpop +lrem +lindex +llen";

/// The additional permissions for shared and limited locks in docs/redis.md.
const MORE: &str = "+zadd +zrem +zremrangebyscore +zrevrange +zrange +zcard +zscore +pexpireat";

async fn connect_as(server: &RedisServer, user: &str) -> LockManager {
    let builder = LockManager::builder().url(server.url_as(user, "secret")).key_prefix("shop:");
    builder.connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_the_keys_is_told_so_at_once() {
    let server = RedisServer::options().user("worker", "on >secret ~other:* &* +@all").start();
    let connected =
        LockManager::builder().url(server.url_as("worker", "secret")).key_prefix("shop:").connect().await;
    let error = match connected {
        Err(error) => error,
        Ok(manager) => {
            let acquire = manager.lock("k").wait(LONG).acquire();
            tokio::time::timeout(SOON, acquire).await.expect("not after the wait").unwrap_err()
        }
    };
    assert!(!error.is_busy(), "{error:?}");
    assert_says(&error, "permission");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_scripts_is_refused_at_the_release_and_leaves_nothing() {
    let server = RedisServer::options().user("worker", "on >secret ~* &* +@all -eval -evalsha").start();
    let manager = LockManager::builder().url(server.url_as("worker", "secret")).connect().await.unwrap();
    let ttl = Duration::from_secs(60);
    // A free lock is acquired by a plain command.
    let guard = manager.lock("k").ttl(ttl).acquire().await.unwrap();
    let released = tokio::time::timeout(SOON, guard.release()).await.expect("not after the ttl");
    assert_says(&released.unwrap_err(), "permission");
    let again = tokio::time::timeout(SOON, manager.lock("other").wait(LONG).acquire()).await;
    let error = again.expect("not after the wait").unwrap_err();
    assert!(!error.is_busy(), "{error:?}");
    assert_says(&error, "permission");
    residue::expires_within(&server, ttl);
    // As if the ttl were over.
    server.raw(&["DEL", "k"]);
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_least_privileges_are_enough() {
    let server = RedisServer::options().user("worker", LEAST).start();
    let (one, other) = (connect_as(&server, "worker").await, connect_as(&server, "worker").await);
    let guard = one.lock("k").fenced().ttl(Duration::from_secs(6)).acquire().await.unwrap();
    let waiter = tokio::spawn(async move { other.lock("k").wait(LONG).fenced().acquire().await });
    let busy = one.lock("k").wait(Duration::from_secs(3)).acquire().await.unwrap_err();
    assert!(busy.is_busy(), "{busy:?}");
    until_renewed(&guard).await;
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    one.inspect("k").await.unwrap();
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_least_privileges_of_shared_and_limited_locks_are_enough() {
    let server = RedisServer::options().user("worker", &format!("{LEAST} {MORE}")).start();
    let (one, other) = (connect_as(&server, "worker").await, connect_as(&server, "worker").await);
    let ttl = Duration::from_secs(6);
    for limited in [false, true] {
        let request = |manager: &LockManager| {
            let request = manager.lock(if limited { "limited" } else { "shared" }).ttl(ttl).wait(LONG);
            if limited { request.max_holders(2) } else { request.shared() }
        };
        let inside = [request(&one).acquire().await.unwrap(), request(&other).acquire().await.unwrap()];
        // They wait for a full semaphore or for a writer.
        let mut waiting = Vec::new();
        if !limited {
            let writer = one.lock("shared").ttl(ttl).wait(LONG);
            waiting.push(tokio::spawn(async move { writer.acquire().await?.release().await }));
            until_waiting(&one, "shared", 1).await;
        }
        let next = request(&other);
        waiting.push(tokio::spawn(async move { next.acquire().await?.release().await }));
        for guard in &inside {
            until_renewed(guard).await;
        }
        for guard in inside {
            guard.release().await.unwrap();
        }
        for waiter in waiting {
            waiter.await.unwrap().unwrap();
        }
    }
    residue::none(&server).await;
}

fn three_with(rules: &str) -> (Vec<RedisServer>, LockManagerBuilder) {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::options().user("worker", rules).start()).collect();
    let urls: Vec<_> = servers.iter().map(|server| server.url_as("worker", "secret")).collect();
    (servers, LockManager::builder().quorum(urls).key_prefix("shop:"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_least_privileges_and_info_are_enough_for_a_quorum() {
    let (servers, builder) = three_with(&format!("{LEAST} +info"));
    let (one, other) = (builder.clone().connect().await.unwrap(), builder.connect().await.unwrap());
    let guard = one.lock("k").fenced().ttl(Duration::from_secs(30)).acquire().await.unwrap();
    let waiter = tokio::spawn(async move { other.lock("k").wait(LONG).fenced().acquire().await });
    until_waiting(&one, "k", 1).await;
    guard.extend(Duration::from_secs(60)).await.unwrap();
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    for server in &servers {
        residue::none(server).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_that_cannot_learn_the_age_of_its_servers_says_what_to_grant() {
    let (_servers, builder) = three_with(LEAST);
    assert_says(&builder.connect().await.unwrap_err(), "+info");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_pub_sub_waiters_of_a_quorum_still_get_their_turn() {
    let (servers, builder) = three_with("on >secret ~* resetchannels +@all -@pubsub");
    let (one, other) = (builder.clone().connect().await.unwrap(), builder.connect().await.unwrap());
    let guard = one.lock("k").acquire().await.unwrap();
    let waiter = tokio::spawn(async move { other.lock("k").wait(LONG).acquire().await });
    // A waiter without pushes is not in a queue, and polls.
    assert!(one.lock("k").wait(Duration::from_millis(200)).acquire().await.unwrap_err().is_busy());
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    for server in &servers {
        residue::none(server).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_client_kill_a_command_that_arrives_late_leaves_nothing_either() {
    let server = RedisServer::options().user("worker", LEAST).start();
    let proxy = Proxy::to(&server.address());
    let url = format!("redis://worker:secret@{}/", proxy.address());
    let manager = LockManager::builder().url(url).key_prefix("shop:").connect().await.unwrap();
    proxy.hold(Direction::Requests);
    assert_unavailable(&manager.lock("k").ttl(LONG).wait(LONG).acquire().await.unwrap_err());
    proxy.pass();
    eventually("it works again", async || manager.lock("probe").acquire().await.is_ok()).await;
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_pub_sub_waiters_still_get_their_turn() {
    let server = RedisServer::options().user("worker", "on >secret ~* resetchannels +@all -@pubsub").start();
    let (one, other) = (connect_as(&server, "worker").await, connect_as(&server, "worker").await);
    let guard = one.lock("k").ttl(LONG).acquire().await.unwrap();
    let waiter = tokio::spawn(async move { other.lock("k").ttl(LONG).wait(LONG).acquire().await });
    assert!(one.lock("k").wait(Duration::from_millis(200)).acquire().await.unwrap_err().is_busy());
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    residue::none(&server).await;
}
