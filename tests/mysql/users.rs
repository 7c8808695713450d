//! The minimum permissions of a user.

use std::time::Duration;

use distlock_fixtures::MariaDbServer;

use crate::each_store::{LONG, SECRET, manager};

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_the_documented_permissions_can_do_everything() {
    let server = MariaDbServer::start();
    // Another user creates the tables.
    drop(manager(&server.url()).await);
    let documentation = include_str!("../../docs/mysql.md");
    let begin = documentation.find("GRANT SELECT").expect("docs/mysql.md says what to grant");
    let grants = documentation[begin..].split("```").next().unwrap();
    server.run(&format!("CREATE USER 'app'@'%' IDENTIFIED BY '{SECRET}'; {grants}")).await;
    let connect = async || manager(&server.url_as("app", SECRET)).await;
    let (one, other) = (connect().await, connect().await);
    let guard = one.lock("k").fenced().acquire().await.unwrap();
    guard.extend(LONG).await.unwrap();
    assert!(one.inspect("k").await.unwrap().is_some());
    let waiter = tokio::spawn(other.lock("k").fenced().wait(LONG).acquire());
    guard.release().await.unwrap();
    let next = waiter.await.unwrap().unwrap();
    assert!(one.force_release("k").await.unwrap());
    drop(next);
    let kept = one.lock("m").min_hold(Duration::from_millis(100));
    kept.acquire().await.unwrap().release().await.unwrap();
    for manager in [&one, &other] {
        let guard =
            manager.lock("n").max_holders(2).min_hold(Duration::from_millis(100)).acquire().await.unwrap();
        guard.extend(LONG).await.unwrap();
        assert!(one.inspect("n").await.unwrap().is_some());
        guard.release().await.unwrap();
    }
    one.lock_all(["a", "b", "c"]).acquire().await.unwrap().release().await.unwrap();
}
