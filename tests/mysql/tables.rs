//! The first process creates the tables.

use std::time::Duration;

use distlock::LockManager;
use distlock_fixtures::MariaDbServer;

use crate::each_store::{manager, refusal};
use crate::mysql::tables_of_its_own;

#[tokio::test(flavor = "multi_thread")]
async fn eight_processes_make_them_at_the_same_time() {
    let server = MariaDbServer::shared();
    for _ in 0..3 {
        let (url, _) = tables_of_its_own(server);
        let mut connecting = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let url = url.clone();
            connecting.spawn(async move { LockManager::connect(&url).await });
        }
        while let Some(manager) = connecting.join_next().await {
            let manager = manager.unwrap().unwrap();
            let guard = manager.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap();
            guard.release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn tables_with_other_names_do_not_know_of_each_other() {
    let server = MariaDbServer::shared();
    let (one, two) = (tables_of_its_own(server).0, tables_of_its_own(server).0);
    let (one, two) = (manager(&one).await, manager(&two).await);
    let _one = one.lock("k").acquire().await.unwrap();
    let _two = two.lock("k").no_wait().acquire().await.unwrap();
}

#[tokio::test]
async fn who_may_not_make_them_is_told_the_sql_which_is_enough() {
    let server = MariaDbServer::start();
    // A user that sees the database, but none of the tables to create.
    server.run("CREATE TABLE other (x INT); CREATE USER app; GRANT SELECT ON locks.other TO app").await;
    let url = server.url_as("app", "");
    let text = refusal(&url).await.to_string();
    assert!(text.contains("may not create") && text.contains("GRANT"), "{text}");
    assert!(text.contains("distlock sql mysql --table-prefix 'distlock_'"), "{text}");
    let sql = distlock_mysql::sql("distlock_").unwrap();
    let statements: Vec<&str> = sql.lines().filter(|line| !line.starts_with("--")).collect();
    // A repetition does no harm.
    for _ in 0..2 {
        server.run(&statements.join("\n")).await;
    }
    let text = refusal(&url).await.to_string();
    let grants = text.split_once("access to them: ").unwrap().1.trim_end_matches('.');
    server.run(&grants.replace('…', "app")).await;
    let manager = manager(&url).await;
    manager.lock("k").fenced().acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_table_that_is_dropped_is_made_again() {
    let server = MariaDbServer::shared();
    let (url, prefix) = tables_of_its_own(server);
    let one = LockManager::connect(&url).await.unwrap();
    server.run(&format!("DROP TABLE {prefix}lock_1")).await;
    let error = one.lock("k").acquire().await.unwrap_err();
    assert!(error.to_string().contains("created when the program connects again"), "{error}");
    manager(&url).await;
    one.lock("k").acquire().await.unwrap().release().await.unwrap();
}
