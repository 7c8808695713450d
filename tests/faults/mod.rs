//! Bad input and faults, one file for each. In every case, the error is typed and names the remedy, no lock is left,
//! and no body runs without its lock.
//!
//! No test here calls `distlock::init`: `attribute_without_init` needs a process that never did.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod attribute_without_init;
mod bad_key;
mod bad_ttl;
mod body_panics;
mod dropped_future;
mod foreign_queue;
mod histories_by_kind;
mod holder_killed;
mod holder_stopped;
mod key_of_another_type;
mod key_without_ttl;
mod leaders;
mod linger;
mod link_cut;
mod link_half_open;
mod manager_shut_down;
mod net;
mod no_permission;
mod no_runtime;
mod no_url;
mod out_of_memory;
mod paused_clock;
mod processes_killed;
mod read_only_server;
mod runtime_blocked;
mod runtime_dropped;
mod scripts_flushed;
mod section_abandoned;
mod server_killed_while_held;
mod server_killed_while_waiting;
mod server_stopped;
mod several_keys_interrupted;
mod slow_to_connect;
mod tokens_fall;
mod too_few_replicas;
mod two_managers;
mod unreachable_address;
mod wait_longer_than_ttl;
mod waiter_killed;
mod waiter_stopped;
mod wrong_database;
mod wrong_password;

use std::time::Duration;

use distlock::{LockError, LockManager};
use distlock_tests::RedisServer;

/// Much longer than any test runs, so a key that is gone earlier did not just expire.
const LONG: Duration = Duration::from_secs(600);

/// The library's limit for an unreachable server, 3 s, with a margin for a busy machine.
const SOON: Duration = Duration::from_secs(30);

async fn connect(server: &RedisServer) -> LockManager {
    LockManager::connect(&server.url()).await.unwrap()
}

/// `Unavailable`, and never `Busy`, because a server that does not reply has not reported a holder.
#[track_caller]
fn assert_unavailable(error: &LockError) {
    assert!(error.is_unavailable() && !error.is_busy(), "{error:?}");
}

#[track_caller]
fn assert_says(error: &LockError, text: &str) {
    let source = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    let said = format!("{error}: {source}");
    assert!(said.to_lowercase().contains(&text.to_lowercase()), "`{said}` does not mention `{text}`");
}
