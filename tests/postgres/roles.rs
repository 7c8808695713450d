//! The minimum permissions of a role.

use std::time::Duration;

use distlock_fixtures::PostgresServer;

use crate::each_store::LONG;
use crate::postgres::manager;

#[tokio::test(flavor = "multi_thread")]
async fn a_role_with_the_documented_permissions_can_do_everything() {
    let server = PostgresServer::start();
    // Another role creates the tables.
    drop(manager(&server.url(), "distlock").await);
    server.make_role("app", "s3cret").await;
    let documentation = include_str!("../../docs/postgres.md");
    let begin = documentation.find("GRANT USAGE").expect("docs/postgres.md says what to grant");
    let grants = documentation[begin..].split("```").next().unwrap();
    server.run(&grants.replace("\"app\"", "app")).await;
    let connect = async || manager(&server.url_as("app", "s3cret"), "distlock").await;
    let (one, other) = (connect().await, connect().await);
    let guard = one.lock("k").fenced().acquire().await.unwrap();
    guard.extend(LONG).await.unwrap();
    let waiter = tokio::spawn(other.lock("k").fenced().wait(LONG).acquire());
    distlock_tests::until_waiting(&one, "k", 1).await;
    guard.release().await.unwrap();
    let next = waiter.await.unwrap().unwrap();
    assert!(one.force_release("k").await.unwrap());
    drop(next);
    for request in [one.lock("s").shared(), one.lock("l").max_holders(2), one.lock("m")] {
        let request = request.min_hold(Duration::from_millis(100));
        request.acquire().await.unwrap().release().await.unwrap();
    }
    one.lock_all(["a", "b", "c"]).acquire().await.unwrap().release().await.unwrap();
    let app = server.url_as("app", "s3cret");
    let (client, connection) = tokio_postgres::connect(&app, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.query_one("SELECT distlock.prune_1(10)", &[]).await.unwrap();
}
