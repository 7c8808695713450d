//! Behind a pooler that gives every transaction another connection.

use std::sync::Arc;

use distlock::LockManager;
use distlock_fixtures::{PgBouncer, PostgresServer};
use distlock_tests::until_waiting;

use crate::each_store::{Court, Tokens};
use crate::each_store::{LONG, refusal};
use crate::postgres::manager;

#[tokio::test(flavor = "multi_thread")]
async fn commands_work_and_waiters_poll() {
    let server = PostgresServer::start();
    let pooler = PgBouncer::to(&server);
    let url = format!("{}?listen=off", pooler.url());
    let (one, other) = (manager(&url, "distlock").await, manager(&url, "distlock").await);
    let guard = one.lock("k").fenced().acquire().await.unwrap();
    assert!(other.lock("k").try_acquire().await.unwrap().is_none());
    guard.extend(LONG).await.unwrap();
    let waiter = tokio::spawn(other.lock("k").fenced().wait(LONG).acquire());
    assert_eq!(one.inspect("k").await.unwrap().unwrap().waiters, 0);
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    one.lock_all(["a", "b", "c"]).acquire().await.unwrap().release().await.unwrap();
    assert_eq!(server.residue("distlock", "").await, [""; 0]);
}

#[tokio::test]
async fn notifications_that_are_not_heard_are_noticed_at_once() {
    let server = PostgresServer::start();
    let pooler = PgBouncer::to(&server);
    let text = refusal(&pooler.url()).await.to_string();
    assert!(text.contains("`listen=`") && text.contains("`listen=off`"), "{text}");
    // No lock is left on the pooler's connections.
    assert_eq!(server.rows("SELECT FROM pg_locks WHERE locktype = 'advisory'").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_direct_connection_waiters_are_told() {
    let server = PostgresServer::start();
    let pooler = PgBouncer::to(&server);
    let direct = server.url().replace("://", "%3A%2F%2F").replace('@', "%40");
    let url = format!("{}?listen={direct}", pooler.url());
    let (one, other) = (manager(&url, "distlock").await, manager(&url, "distlock").await);
    let guard = one.lock("k").acquire().await.unwrap();
    let waiter = tokio::spawn(other.lock("k").wait(LONG).acquire());
    until_waiting(&one, "k", 1).await;
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_with_and_without_a_pooler_exclude_each_other() {
    let server = PostgresServer::start();
    let pooler = PgBouncer::to(&server);
    let court = Arc::new(Court::new(Tokens::Rise));
    let mut workers = tokio::task::JoinSet::new();
    let urls = [server.url(), format!("{}?listen=off", pooler.url())];
    let mut managers: Vec<LockManager> = Vec::new();
    for url in urls.iter().cycle().take(4) {
        managers.push(manager(url, "distlock").await);
        workers.spawn(court.clone().work(managers[managers.len() - 1].clone(), "k".to_owned()));
    }
    distlock_tests::eventually("they have worked", async || court.sections() > 200).await;
    workers.shutdown().await;
    court.acquit();
    let nothing = async || server.residue("distlock", "").await.is_empty();
    distlock_tests::eventually("nothing is left", nothing).await;
    drop(managers);
}
