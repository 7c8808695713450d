//! A simple loop: `SET NX PX` until it succeeds, and compare-and-delete in a script.

use std::{thread, time::Duration};

use distlock_tests::{RedisServer, Section, Tally, shared_clock};

use crate::interop::judge::{FOREIGN, KEY, Ours, TALLY, TTL, judge};

const RELEASE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/// The critical sections of a client without distlock that polls every few milliseconds.
fn poller(url: &str) -> Vec<Section> {
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let mut sections = Vec::new();
    for round in 0..FOREIGN {
        let token = format!("foreign-{round}");
        let set =
            || redis::cmd("SET").arg(KEY).arg(&token).arg("NX").arg("PX").arg(TTL.as_millis() as u64).clone();
        while set().query::<Option<String>>(&mut connection).unwrap().is_none() {
            thread::sleep(Duration::from_millis(3));
        }
        let entered = shared_clock();
        Tally::increment_key(&mut connection, TALLY);
        let left = shared_clock();
        let released: i64 =
            redis::cmd("EVAL").arg(RELEASE).arg(1).arg(KEY).arg(&token).query(&mut connection).unwrap();
        assert_eq!(released, 1, "nobody took it away");
        sections.push(Section::new(&token, KEY, entered, left));
    }
    sections
}

#[tokio::test(flavor = "multi_thread")]
async fn a_polling_loop_and_our_waiters_exclude_each_other_and_both_make_progress() {
    let server = RedisServer::start();
    let ours = Ours::begin(&server).await;
    let url = server.url();
    let foreign = tokio::task::spawn_blocking(move || poller(&url)).await.unwrap();
    judge(&server, ours.end().await, foreign).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn our_lock_is_the_plain_key_with_a_ttl_and_goes_with_the_release() {
    let server = RedisServer::start();
    let manager = distlock::LockManager::connect(&server.url()).await.unwrap();
    let guard = manager.lock(KEY).ttl(TTL).acquire().await.unwrap();
    assert!(server.get(KEY).is_some_and(|token| !token.is_empty()));
    let pttl = server.pttl(KEY);
    assert!((1..=20_000).contains(&pttl), "{pttl}");
    assert_eq!(server.raw(&["SET", KEY, "foreign", "NX", "PX", "1000"]), redis::Value::Nil);
    guard.release().await.unwrap();
    assert!(!server.exists(KEY));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_holder_is_waited_for_and_not_touched() {
    let server = RedisServer::start();
    let manager = distlock::LockManager::connect(&server.url()).await.unwrap();
    server.raw(&["SET", KEY, "foreign", "NX", "PX", "600000"]);
    let error = manager.lock(KEY).wait(Duration::from_millis(300)).acquire().await.unwrap_err();
    assert!(error.is_busy() && error.to_string().contains("foreign"), "{error}");
    assert_eq!(server.get(KEY).as_deref(), Some("foreign"));
    let waiter = tokio::spawn(async move { manager.lock(KEY).wait(Duration::from_secs(60)).acquire().await });
    server.raw(&["DEL", KEY]);
    waiter.await.unwrap().unwrap().release().await.unwrap();
}
