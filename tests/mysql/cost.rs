//! The server's work for a lock.

use std::time::Duration;

use distlock_fixtures::MariaDbServer;

use crate::each_store::{LONG, manager};

/// A counter of all sessions together.
async fn count(server: &MariaDbServer, name: &str) -> i64 {
    let sql =
        format!("SELECT variable_value FROM information_schema.global_status WHERE variable_name = '{name}'");
    let text: String = server.rows(&sql).await[0].get(0).unwrap();
    text.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_free_lock_costs_one_statement_and_its_release_another() {
    let server = MariaDbServer::start();
    let manager = manager(&server.url()).await;
    let executed = async || count(&server, "COM_STMT_EXECUTE").await;
    // New keys, and keys with rows.
    for fenced in [false, true, false] {
        let before = executed().await;
        for number in 0..20 {
            let request = manager.lock(format!("key{number}"));
            let request = if fenced { request.fenced() } else { request };
            request.acquire().await.unwrap().release().await.unwrap();
        }
        assert_eq!(executed().await - before, 40);
    }
    // Only keys that are new to the process use the slower statement.
    assert_eq!(count(&server, "COM_INSERT_SELECT").await, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_finds_it_busy_writes_nothing_and_who_waits_asks_less_and_less_often() {
    let server = MariaDbServer::start();
    let (one, other) = (manager(&server.url()).await, manager(&server.url()).await);
    let guard = one.lock("k").ttl(LONG).acquire().await.unwrap();
    let written = async || count(&server, "HANDLER_UPDATE").await;
    let (before, executed) = (written().await, count(&server, "COM_STMT_EXECUTE").await);
    for _ in 0..50 {
        assert!(other.lock("k").try_acquire().await.unwrap().is_none());
    }
    let waiting = other.lock("k").wait(Duration::from_secs(3)).acquire().await;
    assert!(waiting.unwrap_err().is_busy());
    assert_eq!(written().await, before);
    // Two statements for the first request of the process, and one for each of the others. Then three seconds of polls,
    // with pauses of 10 ms to 100 ms: fewer on a busy machine.
    let asked = count(&server, "COM_STMT_EXECUTE").await - executed;
    assert!((52..=200).contains(&asked), "{asked}");
    guard.release().await.unwrap();
}
