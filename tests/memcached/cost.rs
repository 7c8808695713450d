//! The server's work for a lock.

use std::time::Duration;

use distlock_fixtures::MemcachedServer;

use crate::each_store::{LONG, manager};

fn stat(server: &MemcachedServer, name: &str) -> u64 {
    let lines = server.ask("stats", &["END"]);
    let value = |line: &String| line.strip_prefix("STAT ")?.strip_prefix(name)?.trim().parse().ok();
    lines.iter().find_map(value).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_free_lock_costs_one_write_with_its_look_and_its_release_another_command() {
    let server = MemcachedServer::start();
    let manager = manager(&server.url()).await;
    for number in 0..50 {
        manager.lock(format!("key{}", number % 7)).acquire().await.unwrap().release().await.unwrap();
    }
    let counts = ["cmd_set", "delete_hits", "cmd_get", "delete_misses"].map(|name| stat(&server, name));
    assert_eq!(counts, [50, 50, 50, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_only_looks_and_less_and_less_often() {
    let server = MemcachedServer::start();
    let (one, other) = (manager(&server.url()).await, manager(&server.url()).await);
    let guard = one.lock("k").ttl(LONG).acquire().await.unwrap();
    let before = (stat(&server, "cmd_set"), stat(&server, "cmd_get"));
    let waiting = other.lock("k").wait(Duration::from_secs(3)).acquire().await;
    assert!(waiting.unwrap_err().is_busy());
    assert_eq!(stat(&server, "cmd_set") - before.0, 1);
    // Three seconds of polls, with pauses of 10 ms to 100 ms: fewer on a busy machine.
    let asked = stat(&server, "cmd_get") - before.1;
    assert!((2..=90).contains(&asked), "{asked}");
    guard.release().await.unwrap();
}
