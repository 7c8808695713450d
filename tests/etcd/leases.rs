//! The separate leases of locks that are kept or handed over. Such a lease may end before a place has it.

use std::time::Duration;

use distlock::LockManager;
use distlock_tests::{Direction, EtcdServers, Proxy, eventually};

use crate::etcd::LONG;

fn leases(servers: &EtcdServers) -> Vec<String> {
    let said = servers.ctl(&["lease", "list"]);
    said.lines().skip(1).map(str::to_owned).collect()
}

/// Runs `work`, and ends the lease that it creates before it knows of the lease.
async fn without_its_lease<T>(servers: &EtcdServers, proxy: &Proxy, work: impl Future<Output = T>) -> T {
    let before = leases(servers);
    proxy.hold(Direction::Replies);
    let end = async {
        eventually("a lease is created", async || leases(servers).len() > before.len()).await;
        let lease = leases(servers).into_iter().find(|lease| !before.contains(lease)).unwrap();
        servers.ctl(&["lease", "revoke", &lease]);
        proxy.pass();
    };
    tokio::join!(work, end).0
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_separate_lease_is_not_that_of_the_session() {
    let servers = EtcdServers::one();
    let proxy = Proxy::to(&servers.address(0));
    let url = format!("etcd://{}?session_timeout=3600s&response_timeout=4s", proxy.address());
    let manager = LockManager::builder().url(url).unavailable_after(LONG).connect().await.unwrap();
    let other = manager.lock("other").ttl(LONG).acquire().await.unwrap();

    let kept = manager.lock("kept").ttl(LONG).min_hold(LONG).acquire().await.unwrap();
    without_its_lease(&servers, &proxy, kept.release()).await.unwrap();
    assert!(servers.keys("distlock/locks/kept/").is_empty(), "the time to keep it was over");

    let handed_over = manager.lock("handed over").ttl(LONG).acquire().await.unwrap();
    let refused = without_its_lease(&servers, &proxy, handed_over.hand_over()).await.unwrap_err();
    assert!(refused.is_unavailable(), "{refused:?}");

    other.check().unwrap();
    other.release().await.unwrap();
    manager.lock("kept").wait(Duration::from_secs(30)).acquire().await.unwrap().release().await.unwrap();
    drop(manager);
    eventually("nothing is left", async || servers.keys("").is_empty()).await;
}
