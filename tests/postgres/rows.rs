//! What stays in the tables, and what does not.

use distlock_fixtures::PostgresServer;

use crate::postgres::manager;

#[tokio::test]
async fn tokens_rise_although_rows_of_old_keys_are_removed() {
    let server = PostgresServer::shared();
    let schema = PostgresServer::unused_schema();
    let manager = manager(&server.url(), &schema).await;
    let token = async |key: &str| {
        let guard = manager.lock(key).fenced().acquire().await.unwrap();
        let token = guard.fencing_token().unwrap().get();
        guard.release().await.unwrap();
        token
    };
    for _ in 0..9 {
        token("old").await;
    }
    let last = token("old").await;
    let held = manager.lock("held").fenced().acquire().await.unwrap();
    server
        .run(&format!("UPDATE {schema}.lock_1 SET expires = expires - interval '2 days' WHERE owner IS NULL"))
        .await;
    let removed: i64 = server.rows(&format!("SELECT {schema}.prune_1(100)")).await[0].get(0);
    assert_eq!(removed, 1);
    assert_eq!(server.rows(&format!("SELECT FROM {schema}.lock_1")).await.len(), 1);
    assert!(token("old").await > last);
    assert!(token("new").await > last);
    held.check().unwrap();
    held.release().await.unwrap();
}
