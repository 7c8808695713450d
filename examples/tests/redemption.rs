//! Points are redeemed by four processes, with the lock in PostgreSQL and in etcd: as many gifts as the points pay for.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod example;

use std::process::Command;

use distlock_fixtures::{EtcdServers, PostgresServer};

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
