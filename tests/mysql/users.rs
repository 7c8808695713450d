//! The minimum permissions of a user.

use std::time::Duration;

use distlock::LockManager;
use distlock::testing::eventually;
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
    publishes(&server, &one, &other).await;
    let rows = server.number("SELECT COUNT(*) FROM distlock_value_1 WHERE k = 'held'").await;
    assert_eq!(rows, 0, "the text is removed");
    // Earlier versions did not document the right to remove texts.
    server.run("REVOKE DELETE ON locks.distlock_value_1 FROM 'app'@'%'").await;
    publishes(&server, &one, &other).await;
}

/// A leader publishes an address, and a section that waits inside another one publishes this until its wait has ended.
async fn publishes(server: &MariaDbServer, one: &LockManager, other: &LockManager) {
    let candidate = one.leader("office").value("10.0.0.7:80");
    let office = candidate.run(async |_| one.inspect("office").await).await.unwrap().unwrap().unwrap();
    assert_eq!(office.holders[0].value.as_deref(), Some("10.0.0.7:80"));
    let texts = "SELECT COUNT(*) FROM distlock_value_1 WHERE k = 'held' AND owner <> ''";
    let wanted = other.lock("wanted").acquire().await.unwrap();
    let nested = one.lock("held").run(async |_| {
        let inner = one.lock("wanted").wait(LONG).run(async |_| {
            eventually("the text is gone", async || server.number(texts).await == 0).await;
        });
        inner.await.unwrap();
    });
    let releases = async {
        eventually("the text is there", async || server.number(texts).await == 1).await;
        wanted.release().await.unwrap();
    };
    let (nested, ()) = tokio::join!(nested, releases);
    nested.unwrap();
}
