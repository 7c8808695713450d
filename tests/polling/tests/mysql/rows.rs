//! What stays in the tables, and what does not.

use distlock::testing::eventually;
use distlock_fixtures::MariaDbServer;
use distlock_polling_tests::manager;

use crate::tables_of_its_own;

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
    let age = format!("UPDATE {prefix}lock_1 SET expires = expires - INTERVAL 2 DAY WHERE owner = '-'");
    server.run(&age).await;
    // Looks after the rows a few seconds after it has connected, and removes them a little later.
    let other = manager(&url).await;
    let count = format!("SELECT COUNT(*) FROM {prefix}lock_1");
    eventually("the row is removed", async || server.number(&count).await == 1).await;
    assert!(token(&other, "old").await > last);
    assert!(token(&other, "new").await > last);
    held.check().unwrap();
    held.release().await.unwrap();
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
