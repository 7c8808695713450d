//! Statements that stood still on their way are not carried out any more.

use std::time::Duration;

use distlock::LockManager;
use distlock::testing::eventually;
use distlock_fixtures::{Direction, MariaDbServer, Proxy};

#[tokio::test(flavor = "multi_thread")]
async fn an_acquisition_that_arrives_after_its_time_is_refused() {
    tokio::join!(refused_late(true), refused_late(false));
}

/// By one statement if there is a row, as far as the process knows, and by another one if not.
async fn refused_late(has_row: bool) {
    let server = MariaDbServer::start();
    let proxy = Proxy::to(&server.address());
    let url = server.url_through(&proxy);
    let manager =
        LockManager::builder().url(url).unavailable_after(Duration::from_secs(1)).connect().await.unwrap();
    // It knows this key then, and both statements are prepared.
    for _ in 0..2 {
        manager.lock("known").acquire().await.unwrap().release().await.unwrap();
    }
    let (key, statement) = if has_row { ("known", "COM_UPDATE") } else { ("new", "COM_INSERT_SELECT") };
    // What is sent now arrives when the client has given up long ago, and has closed its connection.
    proxy.hold(Direction::Requests);
    let error = manager.lock(key).ttl(Duration::from_secs(600)).no_wait().acquire().await.unwrap_err();
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
    assert_eq!(server.residue("distlock_", "").await, [""; 0]);
}
