//! Lists of locks and their holders: with every topology of Redis, with dead and stopped processes, with programs that
//! do not use this library, with hostile clients, with users that lack permissions, and with very many locks.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod many;
mod privileges;
mod records;
mod rogue;
mod strangers;
mod topologies;

use std::time::Duration;

use distlock::{LockEntry, LockError, LockManager, Locks};

/// Much longer than any test runs.
const LONG: Duration = Duration::from_secs(600);
/// A lease of this length is renewed soon.
const SHORT: Duration = Duration::from_secs(3);

/// A client with a name.
async fn client(url: &str, name: &str) -> LockManager {
    LockManager::builder().url(url).client_name(name).connect().await.unwrap()
}

/// All entries, and the clients without a heartbeat.
async fn all(mut locks: Locks) -> Result<(Vec<LockEntry>, Vec<String>), LockError> {
    let mut entries = Vec::new();
    while let Some(entry) = locks.next().await {
        entries.push(entry?);
    }
    Ok((entries, locks.unanswered().to_vec()))
}

/// The names of the clients that hold the lock and that wait.
fn parties(entry: &LockEntry) -> (Vec<&str>, Vec<&str>) {
    fn name(id: &str) -> &str {
        id.split('.').next().unwrap()
    }
    let holders = entry.holders.iter().filter_map(|holder| Some(name(&holder.client.as_ref()?.id)));
    let waiters = entry.waiting.iter().filter_map(|waiter| Some(name(&waiter.client.as_ref()?.id)));
    (holders.collect(), waiters.collect())
}
