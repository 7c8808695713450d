//! A server whose first reply takes longer than `connect` usually waits.

use std::time::Duration;

use distlock::LockManager;
use distlock_tests::RedisServer;

#[tokio::test]
async fn connect_waits_for_it_as_long_as_one_attempt_may_take() {
    let server = RedisServer::start();
    server.raw(&["CLIENT", "PAUSE", "5500", "ALL"]);
    let builder = LockManager::builder().url(server.url()).connect_timeout(Duration::from_secs(30));
    let manager = builder.connect().await.unwrap();
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
}
