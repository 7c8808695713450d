//! Commands that were delayed on the link are no longer executed.

use std::time::Duration;

use distlock::LockManager;
use distlock_fixtures::{Direction, PostgresServer, Proxy};
use distlock_tests::eventually;

use crate::postgres::in_schema;

#[tokio::test(flavor = "multi_thread")]
async fn an_acquisition_that_arrives_after_its_time_is_refused() {
    let server = PostgresServer::shared();
    let schema = PostgresServer::unused_schema();
    let proxy = Proxy::to(&server.address());
    let url = in_schema(&server.url_through(&proxy), &schema);
    let manager =
        LockManager::builder().url(url).unavailable_after(Duration::from_secs(1)).connect().await.unwrap();
    // Commands that are sent now arrive long after the client has timed out and closed its connection.
    proxy.hold(Direction::Requests);
    let error = manager.lock("k").ttl(Duration::from_secs(600)).no_wait().acquire().await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    drop(manager);
    tokio::time::sleep(Duration::from_secs(6)).await;
    let backends =
        "SELECT FROM pg_stat_activity WHERE query LIKE '%' || $1 || '%' AND pid <> pg_backend_pid()";
    let client = server.admin().await;
    proxy.pass();
    let begun = async || !client.query(backends, &[&schema]).await.unwrap().is_empty();
    let ended = async || client.query(backends, &[&schema]).await.unwrap().is_empty();
    let _seen_if_slow = begun().await;
    eventually("the connections have ended", ended).await;
    assert_eq!(server.residue(&schema, "").await, [""; 0]);
}
