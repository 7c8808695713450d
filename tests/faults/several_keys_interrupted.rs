//! The only command of a request for several keys is lost, late or refused. No lock stays, and other requests continue.

use std::time::{Duration, Instant};

use distlock::{LockError, LockManager};
use distlock_tests::{Direction, Proxy, RedisServer, eventually, residue};

use super::net::{Net, net};
use super::{LONG, assert_says, assert_unavailable, connect};

const KEYS: [&str; 3] = ["a", "b", "c"];

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_is_gone_when_the_answer_comes_leaves_nothing() {
    let Net { server, proxy, manager } = net().await;
    proxy.hold(Direction::Replies);
    let acquire = tokio::spawn(manager.lock_all(KEYS).ttl(LONG).acquire());
    eventually("the server has taken all of them", async || KEYS.iter().all(|key| server.exists(key))).await;
    acquire.abort();
    assert!(acquire.await.unwrap_err().is_cancelled());
    proxy.pass();
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_whose_reply_was_lost_leaves_nothing() {
    let Net { server, proxy, manager } = net().await;
    proxy.swallow(Direction::Replies);
    let acquire = tokio::spawn(manager.lock_all(KEYS).ttl(LONG).wait(LONG).acquire());
    eventually("the server has taken all of them", async || KEYS.iter().all(|key| server.exists(key))).await;
    assert_unavailable(&acquire.await.unwrap().unwrap_err());
    proxy.pass();
    residue::none(&server).await;
    manager.lock_all(KEYS).no_wait().acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_arrives_late_leaves_nothing() {
    let Net { server, proxy, manager } = net().await;
    proxy.hold(Direction::Requests);
    assert_unavailable(&manager.lock_all(KEYS).ttl(LONG).wait(LONG).acquire().await.unwrap_err());
    assert!(server.keys().is_empty());
    proxy.pass();
    eventually("it works again", async || {
        manager.lock("probe").wait(Duration::from_secs(1)).acquire().await.is_ok()
    })
    .await;
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_breaks_in_between_is_replaced_and_all_of_them_are_acquired() {
    let Net { server, proxy, manager } = net().await;
    proxy.hold(Direction::Replies);
    let acquire = tokio::spawn(manager.lock_all(KEYS).ttl(LONG).wait(LONG).acquire());
    eventually("the server has taken all of them", async || KEYS.iter().all(|key| server.exists(key))).await;
    proxy.cut();
    proxy.pass();
    let guard = acquire.await.unwrap().unwrap();
    let other = connect(&server).await;
    for key in KEYS {
        assert!(other.lock(key).try_acquire().await.unwrap().is_none(), "{key}");
    }
    guard.release().await.unwrap();
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_release_of_all_of_them_does_not_wait_for_the_answer_to_the_first() {
    let Net { server, proxy, manager } = net().await;
    let guard = manager.lock_all(KEYS).ttl(LONG).acquire().await.unwrap();
    proxy.hold(Direction::Replies);
    let release = tokio::spawn(guard.release());
    residue::none(&server).await;
    assert!(!release.is_finished());
    proxy.pass();
    release.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_of_all_of_them_does_not_wait_for_the_answer_to_the_first() {
    let Net { server, proxy, manager } = net().await;
    let guard = manager.lock_all(KEYS).ttl(Duration::from_secs(20)).acquire().await.unwrap();
    proxy.hold(Direction::Replies);
    let extend = tokio::spawn(async move { guard.extend(LONG).await.map(|()| guard) });
    eventually("the server has extended all of them", async || {
        KEYS.iter().all(|key| server.pttl(key) > 60_000)
    })
    .await;
    assert!(!extend.is_finished());
    proxy.pass();
    let guard = extend.await.unwrap().unwrap();
    assert!(guard.remaining() > Duration::from_secs(60));
    drop(guard);
    residue::none(&server).await;
}

#[tokio::test]
async fn a_key_of_another_type_among_them_is_named_and_nothing_is_kept() {
    let server = RedisServer::start();
    server.raw(&["RPUSH", "b", "x"]);
    let manager = connect(&server).await;
    for request in [manager.lock_all(KEYS), manager.lock_all(KEYS).shared()] {
        let error = request.acquire().await.unwrap_err();
        assert!(matches!(error, LockError::WrongKind { .. }), "{error:?}");
        assert_says(&error, "`b`");
    }
    eventually("the others are free", async || server.keys() == ["b"]).await;
}

#[tokio::test]
async fn scripts_that_the_server_has_forgotten_are_told_again() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    for shared in [false, true] {
        server.raw(&["SCRIPT", "FLUSH"]);
        let request = manager.lock_all(KEYS);
        let guard = if shared { request.shared() } else { request }.acquire().await.unwrap();
        assert_eq!(guard.keys().count(), 3);
        guard.release().await.unwrap();
    }
    residue::none(&server).await;
}

/// A server behind a link, and a manager with the longest time-out for a silent link.
async fn patient_net() -> Net {
    let server = RedisServer::start();
    let proxy = Proxy::to(&server.address());
    let manager = LockManager::builder().url(proxy.url()).response_timeout(PATIENCE).connect();
    Net { manager: manager.await.unwrap(), server, proxy }
}

const PATIENCE: Duration = Duration::from_secs(30);

/// This task holds every other key, so each key between them takes a separate command. Each command is answered within
/// the second of a single attempt, but not all of them together are.
#[tokio::test(flavor = "multi_thread")]
async fn a_single_attempt_has_no_more_time_for_several_keys_than_for_one() {
    let Net { server, proxy, manager } = patient_net().await;
    let all = || manager.lock_all(["a", "b", "c", "d", "e", "f", "g", "h", "i"]).reentrant();
    let attempt = manager.lock_all(["b", "d", "f", "h"]).run(async |_| {
        // The server learns the scripts.
        all().acquire().await.unwrap().release().await.unwrap();
        proxy.delay(Direction::Replies, Duration::from_millis(300));
        let attempt = all().no_wait().acquire().await;
        proxy.pass();
        attempt.map(drop)
    });
    assert_unavailable(&attempt.await.unwrap().unwrap_err());
    residue::none(&server).await;
}

/// The server stops after the first of two commands.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_told_that_the_server_is_silent_does_not_wait_for_it_to_take_back_what_it_gave() {
    let Net { server, proxy, manager } = patient_net().await;
    proxy.delay(Direction::Requests, Duration::from_millis(200));
    let attempts = manager.lock("b").ttl(LONG).run(async |_| {
        for _ in 0..20 {
            let start = Instant::now();
            let attempt = manager.lock_all(KEYS).reentrant().no_wait().acquire();
            let stop = async {
                eventually("the server has given the first", async || server.exists("a")).await;
                server.stop();
            };
            let (attempt, ()) = tokio::join!(attempt, stop);
            let took = start.elapsed();
            server.cont();
            match attempt {
                Err(LockError::Unavailable { key, .. }) if key.as_str() == "c" => return Some(took),
                // On a busy machine, the server may stop too early or too late.
                other => drop(other),
            }
            eventually("the first is free again", async || !server.exists("a")).await;
        }
        None
    });
    let took = attempts.await.unwrap().expect("the server stopped in between");
    assert!(took < PATIENCE / 2, "{took:?}");
    proxy.pass();
    residue::none(&server).await;
}
