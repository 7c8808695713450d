//! Locks live exactly as long as the session of their process.

use std::time::Duration;

use distlock::{LockError, LockEvent, LockManager};
use distlock_tests::{Direction, Proxy, ZooKeeperServers, eventually, until_waiting};
use zookeeper_client::{Acls, CreateMode};

use crate::zookeeper::{LONG, process};

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_counted_as_it_was_granted() {
    let servers = ZooKeeperServers::start(1, &["minSessionTimeout=60000", "maxSessionTimeout=80000"]);
    for (asked, granted) in [("2s", Duration::from_secs(60)), ("3600s", Duration::from_secs(80))] {
        let manager = process(&servers, asked).await;
        let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
        let remaining = guard.remaining();
        assert!(remaining > granted - Duration::from_secs(40) && remaining <= granted, "{remaining:?}");
        guard.release().await.unwrap();
    }
}

/// The link is silent for longer than the session lasts. The holder notices the loss while no other process can have
/// the lock. Then a new session begins, without the locks of the former one.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_cut_off_hears_of_its_loss_before_the_server_frees_the_lock() {
    let servers = ZooKeeperServers::one();
    let proxy = Proxy::to(&servers.address(0));
    let url = format!("zookeeper://{}?session_timeout=4s", proxy.address());
    let manager = LockManager::connect(&url).await.unwrap();
    let other = process(&servers, "3600s").await;
    for break_link in [Proxy::refuse, Proxy::swallow_all] {
        let guard = manager.lock("k").ttl(LONG).wait(LONG).acquire().await.unwrap();
        let waiter = tokio::spawn(other.lock("k").wait(LONG).acquire());
        until_waiting(&other, "k", 1).await;
        break_link(&proxy);
        let next = waiter.await.unwrap().unwrap();
        assert!(!guard.is_held(), "for another {:?} after the other one has entered", guard.remaining());
        guard.lost().await;
        next.release().await.unwrap();
        proxy.cut();
        proxy.pass();
    }
    let next = manager.lock("k").wait(LONG).acquire().await.unwrap();
    next.release().await.unwrap();
    servers.has_no_locks("/distlock");
}

/// A lost connection that is replaced is not a loss. Missed events are read again.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_over_another_connection_and_so_do_its_waiters() {
    let servers = ZooKeeperServers::one();
    let proxy = Proxy::to(&servers.address(0));
    let url = format!("zookeeper://{}?session_timeout=120s", proxy.address());
    let (manager, direct) = (LockManager::connect(&url).await.unwrap(), process(&servers, "120s").await);
    let held = manager.lock("held").ttl(LONG).acquire().await.unwrap();
    let guard = direct.lock("k").ttl(LONG).acquire().await.unwrap();
    let waiter = tokio::spawn(manager.lock("k").ttl(LONG).wait(LONG).acquire());
    until_waiting(&direct, "k", 1).await;
    proxy.refuse();
    // No waiter is notified.
    guard.release().await.unwrap();
    proxy.pass();
    let next = tokio::time::timeout(Duration::from_secs(60), waiter).await.expect("it asks again");
    held.check().unwrap();
    for guard in [next.unwrap().unwrap(), held] {
        // The watch may report the turn before the heartbeat on the new connection is answered. A release is then
        // repeated in the background.
        if let Err(error) = guard.release().await {
            assert!(error.is_unavailable(), "{error}");
        }
    }
    servers.has_no_locks("/distlock");
}

/// The place exists although its creation had no reply. It is found again by its name, and there is only one.
#[tokio::test(flavor = "multi_thread")]
async fn a_place_whose_creation_was_not_answered_is_found_again() {
    let servers = ZooKeeperServers::one();
    let proxy = Proxy::to(&servers.address(0));
    // The server removes an empty container within a second, and to create it again takes a reply. This node stays.
    let admin = zookeeper_client::Client::connect(&servers.address(0)).await.unwrap();
    let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
    for node in ["/distlock", "/distlock/locks", "/distlock/locks/k"] {
        admin.create(node, b"", &open).await.unwrap();
    }
    // Even a busy server must not seem silent before it has read the request. Otherwise the client would connect again,
    // and the request would be lost.
    let url = format!("zookeeper://{}?session_timeout=60s&response_timeout=4s", proxy.address());
    let manager = LockManager::builder().url(&url).unavailable_after(LONG).connect().await.unwrap();
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
    for round in 0..3 {
        proxy.swallow(Direction::Replies);
        let acquiring = tokio::spawn(manager.lock("k").fenced().wait(LONG).acquire());
        eventually("the place is there", async || !servers.places("/distlock").is_empty()).await;
        proxy.cut();
        proxy.pass();
        let guard = acquiring.await.unwrap().unwrap();
        assert_eq!(servers.places("/distlock").len(), 1, "round {round}");
        guard.release().await.unwrap();
        servers.has_no_locks("/distlock");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_node_is_deleted_is_lost() {
    let servers = ZooKeeperServers::one();
    let manager = process(&servers, "8s").await;
    let guard = manager.lock("k").ttl(LONG).acquire().await.unwrap();
    let mut events = manager.events();
    let admin = zookeeper_client::Client::connect(&servers.address(0)).await.unwrap();
    for node in admin.list_children("/distlock/sessions").await.unwrap() {
        admin.delete(&format!("/distlock/sessions/{node}"), None).await.unwrap();
    }
    guard.lost().await;
    // The next heartbeat has told it. Without that, the session would have ended as one that is silent.
    let cause = loop {
        if let LockEvent::Disconnected { cause, .. } = events.next().await.unwrap() {
            break cause.to_string();
        }
    };
    assert!(cause.contains("was deleted by another client"), "{cause}");
    let next = manager.lock("k").wait(LONG).acquire().await.unwrap();
    next.release().await.unwrap();
    servers.has_no_locks("/distlock");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_that_ends_leaves_no_session_and_no_node_of_a_lock() {
    let servers = ZooKeeperServers::one();
    let admin = zookeeper_client::Client::connect(&servers.address(0)).await.unwrap();
    let manager = process(&servers, "3600s").await;
    for key in ["a", "b/c"] {
        manager.lock(key).acquire().await.unwrap().release().await.unwrap();
    }
    assert_eq!(servers.ephemerals().len(), 1, "the node of its session");
    manager.shutdown(Duration::from_secs(10)).await;
    assert!(servers.ephemerals().is_empty());
    eventually("containers go", async || admin.list_children("/distlock/locks").await.unwrap().is_empty())
        .await;
    assert!(admin.list_children("/distlock/sessions").await.unwrap().is_empty());
}

/// No process uses the ticket. The first manager deletes the place, or it ends with the manager's session.
#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_ends_with_its_ttl_or_with_the_session_of_a_manager_that_has_ended() {
    let servers = ZooKeeperServers::one();
    let other = process(&servers, "3600s").await;
    for (session, ttl, ends) in [("3600s", Duration::from_secs(3), false), ("5s", LONG, true)] {
        let one = process(&servers, session).await;
        let ticket = one.lock("k").ttl(ttl).acquire().await.unwrap().hand_over().await.unwrap();
        if ends {
            one.shutdown(Duration::ZERO).await;
            drop(one);
        }
        other.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
        let refused = other.take_over(&ticket).acquire().await;
        assert!(matches!(refused, Err(LockError::InvalidTicket { .. })), "{refused:?}");
    }
    servers.has_no_locks("/distlock");
}
