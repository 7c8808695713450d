//! The connection breaks, and the server works.

use std::time::Duration;

use distlock_tests::{eventually, residue, until_renewed, until_waiting};

use super::net::{Net, net};
use super::{LONG, SOON, assert_unavailable, connect};

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_survives_a_cut_and_is_renewed_over_a_new_connection() {
    let Net { server, proxy, manager } = net().await;
    let guard = manager.lock("k").ttl(Duration::from_secs(6)).acquire().await.unwrap();
    proxy.cut();
    until_renewed(&guard).await;
    let busy = connect(&server).await.lock("k").no_wait().acquire().await.unwrap_err();
    assert!(busy.is_busy(), "{busy:?}");
    guard.check().unwrap();
    guard.release().await.unwrap();
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_survives_a_cut() {
    let Net { server, proxy, manager } = net().await;
    let holder = connect(&server).await;
    let guard = holder.lock("k").ttl(LONG).acquire().await.unwrap();
    let waiter = tokio::spawn(async move { manager.lock("k").ttl(LONG).wait(LONG).acquire().await });
    until_waiting(&holder, "k", 1).await;
    proxy.cut();
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_link_is_unavailable_and_the_manager_recovers_by_itself() {
    let Net { server, proxy, manager } = net().await;
    proxy.refuse();
    let start = std::time::Instant::now();
    assert_unavailable(&manager.lock("k").wait_forever().acquire().await.unwrap_err());
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    let start = std::time::Instant::now();
    assert_unavailable(&manager.lock("k").no_wait().acquire().await.unwrap_err());
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    proxy.pass();
    eventually("it works again", async || manager.lock("k").acquire().await.is_ok()).await;
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_dropped_while_the_link_is_down_is_released_after_reconnecting() {
    let Net { server, proxy, manager } = net().await;
    let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
    proxy.refuse();
    drop(guard);
    assert!(server.exists("k"));
    proxy.pass();
    residue::none(&server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_during_an_outage_returns_soon_and_happens_later() {
    let Net { server, proxy, manager } = net().await;
    let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
    proxy.refuse();
    let start = std::time::Instant::now();
    // Whatever outcome the release reports, it does not hang, and the key is removed when the link works again.
    drop(guard.release().await);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    proxy.pass();
    residue::none(&server).await;
}
