//! The number of connections, and the order in which callers get one.

use std::time::{Duration, Instant};

use distlock::LockManager;
use distlock::testing::eventually;
use distlock_fixtures::{BOUND, MariaDbServer};
use mysql_async::prelude::Queryable;

use crate::each_store::LONG;
use crate::mysql::ROWS_AWAITED;

async fn connected(server: &MariaDbServer) -> i64 {
    let sql =
        "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()";
    server.number(sql).await
}

async fn crowd(manager: &LockManager, tasks: usize) {
    let mut running = tokio::task::JoinSet::new();
    for task in 0..tasks {
        let manager = manager.clone();
        running.spawn(async move {
            for _ in 0..10 {
                let request = manager.lock(format!("key{task}")).wait(LONG);
                request.acquire().await.unwrap().release().await.unwrap();
            }
        });
    }
    while let Some(done) = running.join_next().await {
        done.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_process_has_one_and_a_busy_one_as_many_as_it_may() {
    let server = MariaDbServer::start();
    let manager = LockManager::connect(&format!("{}?connections=5", server.url())).await.unwrap();
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(connected(&server).await, 1);
    crowd(&manager, 64).await;
    let most = connected(&server).await;
    assert!((2..=5).contains(&most), "{most}");
    manager.shutdown(Duration::from_secs(10)).await;
    eventually("all are closed", async || connected(&server).await == 0).await;
    let aborted =
        "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'ABORTED_CLIENTS'";
    let aborted: String = server.rows(aborted).await[0].get(0).unwrap();
    assert_eq!(aborted, "0", "they were closed in order");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_gives_few_is_enough() {
    let server = MariaDbServer::start();
    server.run("CREATE USER few WITH MAX_USER_CONNECTIONS 2; GRANT ALL ON locks.* TO few").await;
    let manager =
        LockManager::connect(&format!("{}?connections=32", server.url_as("few", ""))).await.unwrap();
    crowd(&manager, 64).await;
    assert!(connected(&server).await <= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_somebody_else_has_locked_delays_its_key_alone() {
    let server = MariaDbServer::start();
    let manager = LockManager::builder().url(server.url()).unavailable_after(LONG).connect().await.unwrap();
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
    let mut somebody = server.admin().await;
    somebody.query_drop("BEGIN").await.unwrap();
    somebody.query_drop("SELECT * FROM distlock_lock_1 WHERE k = 'k' FOR UPDATE").await.unwrap();
    let waiter = tokio::spawn(manager.lock("k").wait(LONG).acquire());
    eventually("it waits for the row", async || server.number(ROWS_AWAITED).await > 0).await;
    for number in 0..20 {
        let other = manager.lock(format!("other{number}")).wait(LONG);
        other.acquire().await.unwrap().release().await.unwrap();
    }
    assert!(!waiter.is_finished());
    somebody.query_drop("COMMIT").await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

/// Renewals lock several rows at a time, in an order that other statements do not follow.
#[tokio::test(flavor = "multi_thread")]
async fn deadlocks_are_repeated() {
    let server = MariaDbServer::start();
    let manager = LockManager::builder().url(server.url()).unavailable_after(LONG).connect().await.unwrap();
    let guards = {
        let mut guards = Vec::new();
        for key in ["a", "b"] {
            guards.push(manager.lock(key).ttl(Duration::from_secs(9)).acquire().await.unwrap());
        }
        guards
    };
    let mut lost = 0;
    let begin = Instant::now();
    let mut somebody = server.admin().await;
    while lost == 0 || begin.elapsed() < Duration::from_secs(5) {
        assert!(begin.elapsed() < BOUND, "there is no deadlock");
        // In the reverse order of the keys.
        somebody.query_drop("BEGIN").await.unwrap();
        for key in ["b", "a"] {
            let sql = format!("SELECT 1 FROM distlock_lock_1 WHERE k = '{key}' FOR UPDATE");
            lost += usize::from(somebody.query_drop(sql).await.is_err());
        }
        somebody.query_drop("COMMIT").await.unwrap();
    }
    for guard in guards {
        guard.check().unwrap_or_else(|error| panic!("{error}, after {lost} deadlocks of the other side"));
        guard.release().await.unwrap();
    }
}
