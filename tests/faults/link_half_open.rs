//! The connection is dead without an error: bytes vanish in one direction or in both.

use std::time::{Duration, Instant};

use distlock::LockError;
use distlock_tests::{Direction, eventually, residue, until_renewed};

use super::net::{Net, net};
use super::{LONG, SOON, assert_unavailable, connect};

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_knows_by_its_own_clock_that_it_has_lost() {
    let Net { server: _server, proxy, manager } = net().await;
    let ttl = Duration::from_secs(1);
    let start = Instant::now();
    let guard = manager.lock("k").ttl(ttl).acquire().await.unwrap();
    proxy.swallow_all();
    guard.lost().await;
    assert!(start.elapsed() < ttl + SOON, "{:?}", start.elapsed());
    let error = guard.check().unwrap_err();
    let LockError::Lost { reason, .. } = &error else { panic!("{error:?}") };
    assert_eq!(format!("{reason:?}"), "Expired");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_link_is_given_up_and_a_new_one_made() {
    let Net { server, proxy, manager } = net().await;
    proxy.swallow_all();
    let start = Instant::now();
    assert_unavailable(&manager.lock("k").wait(LONG).acquire().await.unwrap_err());
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    // The old connections stay silent forever, so only new ones can work.
    proxy.pass();
    eventually("it works again", async || manager.lock("k").acquire().await.is_ok()).await;
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_survives_a_half_open_link_that_is_replaced_in_time() {
    let Net { server, proxy, manager } = net().await;
    let ttl = Duration::from_secs(12);
    let guard = manager.lock("k").ttl(ttl).acquire().await.unwrap();
    proxy.swallow_all();
    eventually("a renewal is lost", async || proxy.silenced() > 0).await;
    proxy.pass();
    until_renewed(&guard).await;
    let busy = connect(&server).await.lock("k").no_wait().acquire().await.unwrap_err();
    assert!(busy.is_busy(), "{busy:?}");
    guard.release().await.unwrap();
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_whose_reply_was_lost_leaves_nothing() {
    let Net { server, proxy, manager } = net().await;
    proxy.swallow(Direction::Replies);
    let (lost, name) = (manager.clone(), "k");
    let acquire = tokio::spawn(async move { lost.lock(name).ttl(LONG).wait(LONG).acquire().await });
    eventually("the server has taken the lock", async || server.exists("k")).await;
    assert_unavailable(&acquire.await.unwrap().unwrap_err());
    proxy.pass();
    residue::none(&server).await;
    manager.lock("k").no_wait().acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_taken_before_a_long_outage_is_given_back_after_it() {
    let Net { server, proxy, manager } = net().await;
    proxy.swallow(Direction::Replies);
    assert_unavailable(&manager.lock("k").ttl(LONG).acquire().await.unwrap_err());
    assert!(server.exists("k"));
    proxy.refuse();
    // The fault itself, for longer than any command can be in flight.
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert!(server.exists("k"));
    proxy.pass();
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_arrives_late_leaves_nothing() {
    let Net { server, proxy, manager } = net().await;
    proxy.hold(Direction::Requests);
    assert_unavailable(&manager.lock("k").ttl(LONG).wait(LONG).acquire().await.unwrap_err());
    assert!(!server.exists("k"));
    proxy.pass();
    eventually("it works again", async || {
        manager.lock("probe").wait(Duration::from_secs(1)).acquire().await.is_ok()
    })
    .await;
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_link_is_not_a_dead_one() {
    let Net { server, proxy, manager } = net().await;
    for direction in [Direction::Requests, Direction::Replies] {
        proxy.delay(direction, Duration::from_millis(100));
    }
    let guard = manager.lock("k").ttl(Duration::from_secs(10)).acquire().await.unwrap();
    // The deadline is counted from before the request was sent.
    assert!(guard.remaining() <= Duration::from_millis(9_800), "{:?}", guard.remaining());
    guard.release().await.unwrap();
    residue::none(&server).await;
}
