//! kill −9 of a holder's process: other processes wait for the rest of its ttl, and not longer.

use std::time::{Duration, Instant};

use distlock_tests::{LockClient, RedisServer, residue};

use super::{SOON, connect};

const CLIENT: &str = env!("CARGO_BIN_EXE_lock-client");

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_gets_the_lock_within_the_ttl_of_a_killed_holder() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    let mut holder = LockClient::connect(CLIENT, &server.url());
    let acquired = holder.ask("acquire k 3000 0 fenced");
    assert_eq!(acquired.name(), "acquired", "{acquired:?}");
    let waiter =
        tokio::spawn(async move { manager.lock("k").wait(Duration::from_secs(60)).fenced().acquire().await });
    holder.kill9();
    let killed = Instant::now();
    let guard = waiter.await.unwrap().unwrap();
    let waited = killed.elapsed();
    assert!(waited < Duration::from_millis(3000) + SOON, "{waited:?}");
    assert!(guard.fencing_token().unwrap().get() > acquired.number("fence").unwrap());
    guard.release().await.unwrap();
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_enters_before_a_killed_holder_s_lease_has_ended() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    let mut holder = LockClient::connect(CLIENT, &server.url());
    let acquired = holder.ask("acquire k 2000 0 no-renew");
    holder.kill9();
    let guard = manager.lock("k").wait(Duration::from_secs(60)).acquire().await.unwrap();
    assert!(distlock_tests::shared_clock() >= acquired.time("until"));
    guard.release().await.unwrap();
}
