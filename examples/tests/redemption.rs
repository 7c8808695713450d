//! Points are redeemed by four processes, with the lock in each store that processes can share: as many gifts as the
//! points pay for, and no lock is left behind.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod example;

use std::process::Command;

use distlock_fixtures::{EtcdServers, MariaDbServer, MemcachedServer, PostgresServer, ZooKeeperServers};

fn redeems_what_the_points_pay_for(url: &str) {
    let words = ["--url", url, "--processes", "4", "--requests", "80", "--points", "700", "--json"];
    let output = Command::new(example::path("points_redemption")).args(words).output().unwrap();
    let (said, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{complaint}");
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["guarded"]["gifts"], 7, "{report}");
    assert_eq!(report["guarded"]["points"], 0, "{report}");
    assert_eq!(
        (&report["guarded"]["busy"], &report["guarded"]["errors"]),
        (&0.into(), &0.into()),
        "{report}"
    );
}

#[test]
fn through_postgresql() {
    redeems_what_the_points_pay_for(&PostgresServer::start().url());
}

#[test]
fn through_etcd() {
    let servers = EtcdServers::one();
    redeems_what_the_points_pay_for(&servers.url());
    assert!(servers.keys("").is_empty(), "neither locks nor sessions are left: {:?}", servers.keys(""));
}

#[test]
fn through_zookeeper() {
    let servers = ZooKeeperServers::one();
    redeems_what_the_points_pay_for(&servers.url());
    servers.has_no_locks("/distlock");
}

#[tokio::test(flavor = "multi_thread")]
async fn through_mariadb() {
    let server = MariaDbServer::start();
    redeems_what_the_points_pay_for(&server.url());
    assert_eq!(server.residue("distlock_", "").await, [""; 0]);
}

/// With `-M` Memcached refuses new locks when its memory is full, instead of forgetting one. Nothing else in this test
/// makes it forget a lock.
#[test]
fn through_memcached_that_evicts_nothing() {
    let server = MemcachedServer::with(&["-M"]);
    redeems_what_the_points_pay_for(&server.url());
    assert_eq!(server.keys(), [""; 0]);
}

/// A process that is paused for longer than its lease, and a request that is repeated.
#[test]
fn no_gift_too_many_with_fence_and_stored_result() {
    for url in ["memory:", &PostgresServer::start().url()] {
        let output =
            Command::new(example::path("points_redemption")).args(["faults", "--url", url]).output().unwrap();
        let (said, complaint) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{said}{complaint}");
        assert_eq!(said.lines().count(), 3, "{said}");
    }
}
