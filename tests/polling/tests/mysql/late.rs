//! Statements that stood still on their way are not carried out any more.

use std::time::Duration;

use distlock::LockManager;
use distlock::testing::eventually;
use distlock_fixtures::{Direction, MariaDbServer, Proxy};

#[tokio::test(flavor = "multi_thread")]
async fn an_acquisition_that_arrives_after_its_time_is_refused() {
    let server = MariaDbServer::start();
    let proxy = Proxy::to(&server.address());
    let url = server.url_through(&proxy);
    let manager =
        LockManager::builder().url(url).unavailable_after(Duration::from_secs(1)).connect().await.unwrap();
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
    // What is sent now arrives when the client has given up long ago, and has closed its connection.
    proxy.hold(Direction::Requests);
    let error = manager.lock("k").ttl(Duration::from_secs(600)).no_wait().acquire().await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    drop(manager);
    tokio::time::sleep(Duration::from_secs(6)).await;
    let arrived = async || {
        server
            .number(
                "SELECT SUM(variable_value) FROM information_schema.global_status \
        WHERE variable_name IN ('COM_INSERT_SELECT')",
            )
            .await
    };
    let before = arrived().await;
    proxy.pass();
    eventually("it has arrived", async || arrived().await > before).await;
    assert_eq!(server.residue("distlock_", "").await, [""; 0]);
}
