//! Locks live exactly as long as the session of their process.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use distlock::{Credentials, LockEvent, LockManager};
use distlock_tests::{BOUND, EtcdServers, Proxy, eventually, until_waiting};

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
    tokio::time::timeout(BOUND, guard.lost()).await.expect("the watch tells");
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
    let manager = LockManager::connect(&url).await.unwrap();
    let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
    proxy.refuse();
    // A session whose last heartbeat began now would end then.
    let end = Instant::now() + Duration::from_secs(2);
    tokio::time::sleep_until(end.into()).await;
    assert!(!guard.is_held(), "for {:?} longer than the session", guard.remaining());
    guard.lost().await;
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

/// The key of a session was deleted, so the session is over for its process, and its lease lives. The process asks
/// again for its waiter, which must not hold the lock by its former place: its end is the turn of the next process.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_in_a_new_session_waits_behind_the_others_and_the_former_session_ends() {
    let servers = EtcdServers::one();
    let here = process(&servers, "3600s").await;
    let session = servers.keys("distlock/sessions/").remove(0);
    let other = process(&servers, "3600s").await;
    let request = |manager: &LockManager| manager.lock("k").max_holders(2).ttl(LONG).wait(LONG);
    let lost = request(&here).acquire().await.unwrap();
    let held = request(&other).acquire().await.unwrap();
    let waiter = tokio::spawn(request(&here).acquire());
    until_waiting(&other, "k", 1).await;
    let next = tokio::spawn(request(&other).acquire());
    until_waiting(&other, "k", 2).await;
    eventually("the session is over for its process", async || {
        // A heartbeat or a request that comes first finds the key gone, and the session continues.
        servers.ctl(&["del", &session]);
        lost.check().is_err()
    })
    .await;
    eventually("the places of the former session have ended", async || next.is_finished()).await;
    assert!(!waiter.is_finished(), "both places are taken");
    held.release().await.unwrap();
    for holder in [next, waiter] {
        holder.await.unwrap().unwrap().release().await.unwrap();
    }
    servers.has_no_locks("distlock/");
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

/// The function that gives credentials panics once. The session continues over the next connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_the_program_when_it_connects_again_costs_no_lock() {
    let servers = EtcdServers::one();
    let proxy = Proxy::to(&servers.address(0));
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let credentials = move || {
        let panics = count.fetch_add(1, Ordering::SeqCst) == 1;
        async move {
            if panics {
                resume_unwind(Box::new("the test says so"));
            }
            Ok::<_, std::io::Error>(Credentials::new("app", "s3cret"))
        }
    };
    let url = format!("etcd://{}?session_timeout=60s", proxy.address());
    let manager = LockManager::builder().url(url).credentials(credentials).connect().await.unwrap();
    let guard = manager.lock("k").ttl(LONG).no_renew().acquire().await.unwrap();
    let leases = servers.ctl(&["lease", "list"]);
    let mut events = manager.events();
    proxy.cut();
    let mut causes = Vec::new();
    loop {
        match events.next().await.unwrap() {
            LockEvent::Disconnected { cause, .. } => causes.push(cause.to_string()),
            LockEvent::Connected { .. } => break,
            _ => {}
        }
    }
    assert_eq!(calls.load(Ordering::SeqCst), 3, "{causes:?}");
    assert_eq!(servers.ctl(&["lease", "list"]), leases, "the session is the same");
    guard.check().unwrap();
    guard.release().await.unwrap();
    servers.has_no_locks("distlock/");
}
