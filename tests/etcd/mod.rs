//! What is particular to etcd: sessions, leases, elections, compaction, users, TLS.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cost;
mod elections;
mod errors;
mod sessions;
mod tls;
mod together;
mod users;

use std::time::Duration;

use distlock::LockManager;
use distlock_tests::EtcdServers;

/// Much longer than any test runs.
const LONG: Duration = Duration::from_secs(3_600);

/// A process with a session of this time-out, on all members.
async fn process(servers: &EtcdServers, session_timeout: &str) -> LockManager {
    let url = format!("{}?session_timeout={session_timeout}&response_timeout=1s", servers.url());
    LockManager::connect(&url).await.expect("the members answer")
}

/// The revision of the store: how many transactions have written since it was created.
fn revision(servers: &EtcdServers) -> u64 {
    let said = servers.ctl(&["get", "nothing", "-w", "fields"]);
    said.lines().find_map(|line| line.strip_prefix("\"Revision\" : ")).unwrap().parse().unwrap()
}
