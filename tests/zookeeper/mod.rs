//! Tests that only ZooKeeper needs: sessions, members, users, the queue of all kinds of locks, and remaining nodes.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cost;
mod errors;
mod kinds;
mod members;
mod places;
mod sessions;
mod users;

mod kinds_faults {
    crate::each_store::kinds_faults!(distlock_tests::ZooKeeperServers);
}

use std::time::Duration;

use distlock::LockManager;
use distlock_tests::ZooKeeperServers;

/// Much longer than any test runs.
const LONG: Duration = Duration::from_secs(3_600);

/// A manager on all members, whose session has this time-out.
async fn process(servers: &ZooKeeperServers, session_timeout: &str) -> LockManager {
    let url = format!("{}?session_timeout={session_timeout}", servers.url());
    LockManager::connect(&url).await.expect("the members answer")
}
