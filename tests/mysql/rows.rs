//! The rows that stay in the tables, and those that are removed.

use distlock::testing::eventually;
use distlock_fixtures::MariaDbServer;

use crate::each_store::{LONG, manager};
use crate::mysql::several::count;
use crate::mysql::tables_of_its_own;

#[tokio::test]
async fn tokens_rise_although_rows_of_old_keys_are_removed() {
    let server = MariaDbServer::shared();
    let (url, prefix) = tables_of_its_own(server);
    let first = manager(&url).await;
    let token = async |manager: &distlock::LockManager, key: &str| {
        let guard = manager.lock(key).fenced().acquire().await.unwrap();
        let token = guard.fencing_token().unwrap().get();
        guard.release().await.unwrap();
        token
    };
    for _ in 0..9 {
        token(&first, "old").await;
    }
    let last = token(&first, "old").await;
    let held = first.lock("held").fenced().acquire().await.unwrap();
    // The texts that a leader and a section published.
    server.run(&format!("INSERT INTO {prefix}value_1 VALUES ('old', 'a', 'b'), ('held', 'c', 'd')")).await;
    let age = format!("UPDATE {prefix}lock_1 SET expires = expires - INTERVAL 2 DAY WHERE owner = '-'");
    server.run(&age).await;
    // This manager checks the rows a few seconds after it has connected, and removes them a little later.
    let other = manager(&url).await;
    let count = format!("SELECT COUNT(*) FROM {prefix}lock_1");
    eventually("the row is removed", async || server.number(&count).await == 1).await;
    let texts = format!("SELECT COUNT(*) FROM {prefix}value_1 WHERE k");
    let is_left = async |key: &str| server.number(&format!("{texts} = '{key}'")).await == 1;
    eventually("its text is removed", async || !is_left("old").await).await;
    assert!(is_left("held").await, "a key that has a row keeps its text");
    // One manager knows no row of the key, and one knows the removed row.
    let next = token(&other, "old").await;
    assert!(next > last);
    server.run(&format!("DELETE FROM {prefix}lock_1 WHERE k = 'old'")).await;
    server.run(&format!("UPDATE {prefix}floor_1 SET least = {next}")).await;
    assert!(token(&first, "old").await > next);
    assert!(token(&other, "new").await > last);
    held.check().unwrap();
    held.release().await.unwrap();
}

/// Several times as many rows as one statement checks.
#[tokio::test]
async fn fifty_thousand_rows_of_old_keys_are_removed_by_one_pass() {
    let server = MariaDbServer::shared();
    let (url, prefix) = tables_of_its_own(server);
    let first = manager(&url).await;
    let held = first.lock("held").fenced().acquire().await.unwrap();
    for (key, age, many) in [("old", "2 DAY", 50_000), ("recent", "1 HOUR", 12_000)] {
        let rows = format!(
            "INSERT INTO {prefix}lock_1 SELECT CONCAT('{key}:', seq), '-', UTC_TIMESTAMP(6) - INTERVAL {age}, \
             seq, seq + 1 FROM seq_1_to_{many}"
        );
        server.run(&rows).await;
    }
    let other = manager(&url).await;
    let count = format!("SELECT COUNT(*) FROM {prefix}lock_1 WHERE k < 'p'");
    // In steps, because a slow machine takes long for all of them.
    for left in [40_001, 20_001] {
        eventually("old rows are removed", async || server.number(&count).await <= left).await;
    }
    eventually("the old rows are gone", async || server.number(&count).await == 1).await;
    assert_eq!(server.number(&format!("SELECT COUNT(*) FROM {prefix}lock_1")).await, 12_001);
    let again = other.lock("old:50000").fenced().acquire().await.unwrap();
    assert!(again.fencing_token().unwrap().get() > 50_000);
    again.release().await.unwrap();
    held.check().unwrap();
    held.release().await.unwrap();
}

/// One statement for all rows could take so long that its process replaces its connections. So each statement reads
/// 10 000 rows, and a page may need several.
#[tokio::test]
async fn held_keys_among_many_free_ones_are_listed_by_several_statements() {
    const HELD: [&str; 5] = ["k00001", "k10000", "k10001", "k12345", "k25000"];
    let server = MariaDbServer::start();
    let manager = manager(&server.url()).await;
    let held = HELD.map(|key| format!("'{key}'")).join(", ");
    let rows = format!(
        "INSERT INTO distlock_lock_1 SELECT k, IF(k IN ({held}), 'dl1:x:1', '-'), \
         UTC_TIMESTAMP(6) + INTERVAL IF(k IN ({held}), 1, -1) HOUR, 0, 1 \
         FROM (SELECT CONCAT('k', LPAD(seq, 5, '0')) AS k FROM seq_1_to_25000) AS keys_of_all"
    );
    server.run(&rows).await;
    let before = count(&server, "COM_STMT_EXECUTE").await;
    let (mut locks, mut found) = (manager.list("k*"), Vec::new());
    while let Some(lock) = locks.next().await {
        found.push(lock.unwrap().key);
    }
    assert_eq!(found, HELD);
    assert!(count(&server, "COM_STMT_EXECUTE").await - before >= 3);
}

/// In this mode of MariaDB, no assignment of a statement sees another one.
#[tokio::test]
async fn a_lock_is_acquired_and_kept_from_others_in_whatever_order_the_server_assigns() {
    let server = MariaDbServer::start();
    server.run("SET GLOBAL sql_mode = 'SIMULTANEOUS_ASSIGNMENT'").await;
    let (one, other) = (manager(&server.url()).await, manager(&server.url()).await);
    let mut tokens = Vec::new();
    // The row is new, then of another process, and then known.
    for manager in [&one, &other, &one, &other] {
        let guard = manager.lock("k").fenced().ttl(LONG).acquire().await.unwrap();
        tokens.push(guard.fencing_token().unwrap().get());
        let somebody = if std::ptr::eq(manager, &one) { &other } else { &one };
        assert!(somebody.lock("k").try_acquire().await.unwrap().is_none());
        let remaining = one.inspect("k").await.unwrap().unwrap().holders[0].remaining.unwrap();
        assert!(remaining > LONG / 2, "{remaining:?}");
        guard.release().await.unwrap();
    }
    assert!(tokens.is_sorted_by(|former, next| former < next), "{tokens:?}");
}

#[tokio::test]
async fn a_table_without_its_floor_says_what_to_do_and_hands_out_no_token() {
    let server = MariaDbServer::shared();
    let (url, prefix) = tables_of_its_own(server);
    let manager = distlock::LockManager::connect(&url).await.unwrap();
    server.run(&format!("DELETE FROM {prefix}floor_1")).await;
    let error = manager.lock("k").fenced().try_acquire().await.unwrap_err();
    assert!(error.to_string().contains(&format!("INSERT INTO `{prefix}floor_1`")), "{error}");
}

/// A key that was released before the server's clock was set back is free. Its next lease lasts for its own ttl, and
/// not for the time of the jump.
#[tokio::test]
async fn a_free_row_from_before_the_clock_was_set_back_keeps_nobody_out() {
    let server = MariaDbServer::start();
    for mode in ["", "SIMULTANEOUS_ASSIGNMENT"] {
        server.run(&format!("SET GLOBAL sql_mode = '{mode}'")).await;
        let (knows, knows_not) = (manager(&server.url()).await, manager(&server.url()).await);
        let mut last = 0;
        for manager in [&knows, &knows_not] {
            knows.lock("k").acquire().await.unwrap().release().await.unwrap();
            let back = "UPDATE distlock_lock_1 SET expires = expires + INTERVAL 1 HOUR WHERE owner = '-'";
            server.run(back).await;
            assert!(knows.inspect("k").await.unwrap().is_none());
            let guard =
                manager.lock("k").fenced().ttl(LONG).try_acquire().await.unwrap().expect("it is free");
            let remaining = knows.inspect("k").await.unwrap().unwrap().holders[0].remaining.unwrap();
            assert!(remaining <= LONG, "{mode}: {remaining:?}");
            let token = guard.fencing_token().unwrap().get();
            assert!(token > last, "{token} after {last}");
            last = token;
            // It is renewed and extended as usual.
            guard.extend(LONG * 2).await.unwrap();
            let remaining = knows.inspect("k").await.unwrap().unwrap().holders[0].remaining.unwrap();
            assert!(remaining > LONG && remaining <= LONG * 2, "{mode}: {remaining:?}");
            guard.release().await.unwrap();
        }
    }
}
