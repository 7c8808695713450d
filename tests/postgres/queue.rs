//! The cost of a wait, and the waiters that are skipped.

use std::time::{Duration, Instant};

use distlock_fixtures::{PostgresServer, Proxy};
use distlock_tests::{BOUND, eventually, until_waiting};

use crate::each_store::LONG;
use crate::postgres::manager;

async fn calls(server: &PostgresServer, schema: &str, name: &str) -> i64 {
    let sql = format!(
        "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_user_functions
            WHERE schemaname = '{schema}' AND funcname = '{name}'"
    );
    server.rows(&sql).await[0].get(0)
}

/// How often a function was called, as soon as the number no longer rises.
async fn settled(server: &PostgresServer, schema: &str, name: &str, at_least: i64) -> i64 {
    distlock_tests::eventually("the calls are counted", async || {
        calls(server, schema, name).await >= at_least
    })
    .await;
    // Backends report their counts once a second.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    calls(server, schema, name).await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_wait_is_not_served_and_who_waits_sleeps() {
    let server = PostgresServer::with(&["track_functions=all"]);
    let (one, other) = (manager(&server.url(), "distlock").await, manager(&server.url(), "distlock").await);
    for _ in 0..50 {
        one.lock("k").acquire().await.unwrap().release().await.unwrap();
    }
    // One for each section. A release without a reply in time is repeated.
    let releases = settled(&server, "distlock", "release_1", 50).await;
    assert!((50..=55).contains(&releases), "{releases}");
    assert_eq!(calls(&server, "distlock", "serve_1").await, 0);
    let before = settled(&server, "distlock", "acquire_1", 50).await;
    let start = Instant::now();
    let guard = one.lock("k").ttl(LONG).acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("k").wait(LONG).acquire());
    until_waiting(&one, "k", 1).await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    let asked = settled(&server, "distlock", "acquire_1", before + 2).await - before;
    // One for the holder, one for its first attempt, one for its place in the queue, and a heartbeat every two seconds.
    let most = 4 + start.elapsed().as_secs().cast_signed() / 2;
    assert!((3..=most).contains(&asked), "{asked} of {most}");
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    // The grant was accepted without a confirmation.
    assert!(settled(&server, "distlock", "release_1", releases + 2).await >= releases + 2);
}

/// An SQL function that is not inlined into its caller's statement is parsed with every call. (While a statement is
/// planned, it may call one.)
#[tokio::test(flavor = "multi_thread")]
async fn no_function_is_parsed_with_every_command() {
    let server = PostgresServer::with(&["track_functions=all"]);
    let (one, other) = (manager(&server.url(), "distlock").await, manager(&server.url(), "distlock").await);
    let rounds = 100;
    for _ in 0..rounds {
        // In each case, the first holder excludes the other one, and its release grants the lock to it.
        let cases = [
            ("e", one.lock("e"), other.lock("e")),
            ("s", one.lock("s"), other.lock("s").shared()),
            ("l", one.lock("l").max_holders(1), other.lock("l").max_holders(1)),
        ];
        for (key, first, then) in cases {
            let guard = first.acquire().await.unwrap();
            let waiter = tokio::spawn(then.wait(LONG).acquire());
            until_waiting(&one, key, 1).await;
            guard.release().await.unwrap();
            waiter.await.unwrap().unwrap().release().await.unwrap();
        }
    }
    settled(&server, "distlock", "enqueue_1", 3 * rounds).await;
    let sql = format!(
        "SELECT f.funcname FROM pg_stat_user_functions f JOIN pg_proc p ON p.oid = f.funcid
            JOIN pg_language l ON l.oid = p.prolang
            WHERE l.lanname = 'sql' AND f.schemaname = 'distlock' AND f.calls >= {rounds}"
    );
    let called: Vec<String> = server.rows(&sql).await.iter().map(|row| row.get(0)).collect();
    assert!(called.is_empty(), "{called:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_while_it_waits_is_passed_over() {
    let server = PostgresServer::shared();
    let schema = PostgresServer::unused_schema();
    let one = manager(&server.url(), &schema).await;
    let guard = one.lock("k").ttl(LONG).acquire().await.unwrap();
    // The server notices that a process has died because its connections end.
    let proxy = Proxy::to(&server.address());
    let dying = manager(&server.url_through(&proxy), &schema).await;
    tokio::spawn(dying.lock("k").wait(LONG).acquire());
    until_waiting(&one, "k", 1).await;
    let channel: i64 = server.rows(&format!("SELECT channel FROM {schema}.waiter_1")).await[0].get(0);
    let waiter = tokio::spawn(manager(&server.url(), &schema).await.lock("k").wait(LONG).acquire());
    until_waiting(&one, "k", 2).await;
    proxy.refuse();
    let listens = format!("SELECT FROM pg_locks WHERE (classid::bigint << 32) | objid::bigint = {channel}");
    eventually("nobody listens", async || server.rows(&listens).await.is_empty()).await;
    guard.release().await.unwrap();
    // The release itself has skipped the dead process, and granted the lock to no other in between.
    let granted = server.rows(&format!("SELECT owner FROM {schema}.lock_1 WHERE expires > now()")).await;
    assert_eq!(granted.len(), 1);
    assert_eq!(server.rows(&format!("SELECT FROM {schema}.waiter_1")).await.len(), 0);
    tokio::time::timeout(BOUND, waiter).await.expect("it is told").unwrap().unwrap().release().await.unwrap();
    assert_eq!(server.residue(&schema, "").await, [""; 0]);
}
