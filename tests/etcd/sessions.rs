//! Locks live exactly as long as the session of their process.

use std::time::{Duration, Instant};

use distlock::LockEvent;
use distlock_tests::{EtcdServers, Proxy, eventually};

use crate::etcd::{LONG, process};

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_granted_for_longer_is_counted_as_it_was_granted() {
    // The shortest lease must be longer than two elections, so 2 s are raised to 9 s.
    let servers = EtcdServers::start(1, &["--heartbeat-interval=600", "--election-timeout=6000"]);
    let manager = process(&servers, "2s").await;
    let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
    let remaining = guard.remaining();
    assert!(remaining > Duration::from_secs(3) && remaining <= Duration::from_secs(9), "{remaining:?}");
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_the_server_ends_is_lost_at_once() {
    let servers = EtcdServers::one();
    let manager = process(&servers, "3600s").await;
    let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
    let listed = servers.ctl(&["lease", "list"]);
    let lease = listed.lines().last().unwrap().trim();
    servers.ctl(&["lease", "revoke", lease]);
    // No heartbeat and no renewal would be due within the test.
    tokio::time::timeout(Duration::from_secs(3), guard.lost()).await.expect("the watch tells");
    assert!(guard.check().unwrap_err().is_lost());
    let next = manager.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap();
    next.release().await.unwrap();
    servers.has_no_locks("distlock/");
}

/// The link is down for longer than the session lasts. A new session begins, without the locks of the former one.
#[tokio::test(flavor = "multi_thread")]
async fn a_cut_that_outlasts_the_session_costs_the_locks_and_nothing_else() {
    let servers = EtcdServers::one();
    let proxy = Proxy::to(&servers.address(0));
    let url = format!("etcd://{}?session_timeout=2s", proxy.address());
    let manager = distlock::LockManager::connect(&url).await.unwrap();
    let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
    let start = Instant::now();
    proxy.refuse();
    guard.lost().await;
    assert!(start.elapsed() < Duration::from_secs(2), "not longer than the session: {:?}", start.elapsed());
    let other = process(&servers, "2s").await;
    other.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap().release().await.unwrap();
    proxy.pass();
    let next = manager.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap();
    next.release().await.unwrap();
    drop((guard, manager, other));
    servers.has_no_locks("distlock/");
    eventually("no session is left", async || servers.keys("").is_empty()).await;
    assert!(!servers.ctl(&["lease", "list"]).lines().skip(1).any(|line| !line.trim().is_empty()));
}

/// A member that starts again prolongs all leases, so the process itself ends its former session. Its watch reports
/// that after the new session has begun, which does not cost the new session.
#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_former_session_does_not_end_the_new_one() {
    let mut servers = EtcdServers::one();
    let manager = process(&servers, "5s").await;
    let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
    let mut events = manager.events();
    servers.kill9(0);
    guard.lost().await;
    servers.restart(0);
    let other = process(&servers, "60s").await;
    let held = other.lock("j").wait(Duration::from_secs(30)).acquire().await.unwrap();
    let waiting =
        tokio::spawn(async move { manager.lock("j").wait(Duration::from_secs(60)).acquire().await });
    eventually("it waits", async || servers.keys("distlock/locks/j/").len() == 2).await;
    held.release().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    // The watch has reported the release, so it has reported the end of the former session, too.
    let mut connected = 0;
    loop {
        match events.next().await.unwrap() {
            LockEvent::Connected { .. } => connected += 1,
            LockEvent::Disconnected { cause, .. } => assert_eq!(connected, 0, "{cause}"),
            LockEvent::Acquired { .. } => break,
            _ => {}
        }
    }
    assert_eq!(connected, 1);
    next.release().await.unwrap();
}

/// No process waits for the session of a process that was shut down.
#[tokio::test(flavor = "multi_thread")]
async fn the_session_ends_with_the_manager() {
    let servers = EtcdServers::one();
    for way in ["shut down", "dropped"] {
        let manager = process(&servers, "3600s").await;
        let guard = manager.lock("k").acquire().await.unwrap();
        let closing = manager.clone();
        assert_eq!(servers.keys("").len(), 2, "a place and the session");
        if way == "shut down" {
            let closing = tokio::spawn(async move { closing.shutdown(LONG).await });
            guard.release().await.unwrap();
            let report = closing.await.unwrap();
            assert_eq!((report.held, report.lost, report.unconfirmed), (1, 0, 0), "{report:?}");
        } else {
            drop((guard, closing, manager));
        }
        eventually("nothing is left", async || servers.keys("").is_empty()).await;
        let leases = servers.ctl(&["lease", "list"]);
        assert!(!leases.lines().skip(1).any(|line| !line.trim().is_empty()), "{way}: {leases}");
    }
}
