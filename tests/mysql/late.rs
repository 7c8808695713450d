//! Statements that were delayed on the link are no longer executed.

use std::time::Duration;

use distlock::testing::eventually;
use distlock::{LockKind, LockManager};
use distlock_fixtures::{Direction, MariaDbServer, Proxy};
use mysql_async::prelude::Queryable;

#[tokio::test(flavor = "multi_thread")]
async fn an_acquisition_that_arrives_after_its_time_is_refused() {
    // One statement is used if the process knows a row, another one if not, and a transaction for other kinds.
    tokio::join!(
        refused_late("known", LockKind::Exclusive, "COM_UPDATE"),
        refused_late("new", LockKind::Exclusive, "COM_INSERT_SELECT"),
        refused_late("known", LockKind::Shared, "COM_BEGIN"),
        refused_late("new", LockKind::Shared, "COM_BEGIN"),
    );
}

/// A backup locks all tables. The server ends a statement whose connection was closed, but here it does not find out.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_waits_no_longer_for_a_locked_table_than_its_process_waits_for_it() {
    let server = MariaDbServer::start();
    let proxy = Proxy::to(&server.address());
    let manager = LockManager::builder().url(server.url_through(&proxy)).connect().await.unwrap();
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
    let mut administrator = server.admin().await;
    administrator.query_drop("FLUSH TABLES WITH READ LOCK").await.unwrap();
    let request = tokio::spawn(manager.lock("k").ttl(Duration::from_secs(600)).acquire());
    let waiting = format!("{CLIENTS} AND state LIKE 'Waiting for%'");
    eventually("it waits", async || server.number(&waiting).await > 0).await;
    proxy.hold(Direction::Requests);
    request.abort();
    drop(manager);
    eventually("nothing waits for the tables", async || server.number(&waiting).await == 0).await;
    administrator.query_drop("UNLOCK TABLES").await.unwrap();
    assert_eq!(server.residue("distlock_", "").await, [""; 0]);
}

const CLIENTS: &str = "SELECT COUNT(*) FROM information_schema.processlist \
                       WHERE db = DATABASE() AND id <> CONNECTION_ID()";

async fn refused_late(key: &str, kind: LockKind, statement: &str) {
    let server = MariaDbServer::start();
    let proxy = Proxy::to(&server.address());
    let url = server.url_through(&proxy);
    let manager =
        LockManager::builder().url(url).unavailable_after(Duration::from_secs(1)).connect().await.unwrap();
    // After this, the process knows the key, and both statements are prepared.
    for _ in 0..2 {
        manager.lock("known").acquire().await.unwrap().release().await.unwrap();
    }
    // Statements that are sent now arrive long after the client has timed out and closed its connection.
    proxy.hold(Direction::Requests);
    let request = manager.lock(key).ttl(Duration::from_secs(600)).no_wait();
    let request = if kind == LockKind::Shared { request.shared() } else { request };
    let error = request.acquire().await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    drop(manager);
    tokio::time::sleep(Duration::from_secs(6)).await;
    let arrived = async || {
        server
            .number(&format!(
                "SELECT SUM(variable_value) FROM information_schema.global_status \
                 WHERE variable_name = '{statement}'"
            ))
            .await
    };
    let before = arrived().await;
    proxy.pass();
    eventually("it has arrived", async || arrived().await > before).await;
    eventually("it was carried out", async || server.number(CLIENTS).await == 0).await;
    assert_eq!(server.residue("distlock_", "").await, [""; 0]);
}
