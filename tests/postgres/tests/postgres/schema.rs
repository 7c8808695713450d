//! The tables and functions are made by the process that comes first.

use std::time::Duration;

use distlock::LockManager;
use distlock_fixtures::PostgresServer;

use crate::{in_schema, manager, refusal};

#[tokio::test(flavor = "multi_thread")]
async fn eight_processes_install_it_at_the_same_time() {
    let server = PostgresServer::shared();
    for _ in 0..5 {
        let schema = PostgresServer::unused_schema();
        let mut connecting = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let url = in_schema(&server.url(), &schema);
            connecting.spawn(async move { LockManager::builder().url(url).connect().await });
        }
        while let Some(manager) = connecting.join_next().await {
            let manager = manager.unwrap().unwrap();
            let guard = manager.lock("k").wait(Duration::from_secs(30)).acquire().await.unwrap();
            guard.release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn schemas_do_not_know_of_each_other() {
    let server = PostgresServer::shared();
    let (one, two) = (PostgresServer::unused_schema(), PostgresServer::unused_schema());
    let (one, two) = (manager(&server.url(), &one).await, manager(&server.url(), &two).await);
    let _one = one.lock("k").acquire().await.unwrap();
    let _two = two.lock("k").no_wait().acquire().await.unwrap();
}

#[tokio::test]
async fn who_may_not_make_it_is_told_the_sql_which_is_enough() {
    let server = PostgresServer::start();
    server.run("CREATE ROLE app LOGIN").await;
    let url = server.url_as("app", "");
    let text = refusal(&url).await.to_string();
    let (explanation, sql) = text.split_once("\n\n").expect("the SQL is there");
    assert!(explanation.contains("may not create") && explanation.contains("GRANT"), "{explanation}");
    server.run(sql).await;
    let text = refusal_to_lock(&url).await;
    assert!(text.contains("GRANT USAGE ON SCHEMA"), "{text}");
    server.run("GRANT USAGE ON SCHEMA distlock TO app").await;
    let text = refusal_to_lock(&url).await;
    assert!(text.contains("GRANT"), "{text}");
    server.run("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA distlock TO app").await;
    let manager = LockManager::builder().url(&url).connect().await.unwrap();
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
}

async fn refusal_to_lock(url: &str) -> String {
    let manager = LockManager::builder().url(url).connect().await.unwrap();
    let error = manager.lock("k").acquire().await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    error.to_string()
}

#[tokio::test]
async fn a_schema_that_is_made_already_needs_no_permission_on_the_database() {
    let server = PostgresServer::start();
    server.run("CREATE ROLE app LOGIN; CREATE SCHEMA mine AUTHORIZATION app").await;
    let manager = manager(&server.url_as("app", ""), "mine").await;
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
}
