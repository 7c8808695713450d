//! The user's runtime is blocked for longer than the ttl: renewal goes on, because it has a thread of its own.

use std::time::Duration;

use distlock_tests::RedisServer;

use super::connect;

#[test]
fn a_lease_outlives_a_blocked_runtime() {
    let server = RedisServer::start();
    let ttl = Duration::from_secs(2);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let manager = connect(&server).await;
        let guard = manager.lock("k").ttl(ttl).acquire().await.unwrap();
        // The fault itself: nothing of this runtime runs meanwhile.
        std::thread::sleep(ttl * 2);
        guard.check().unwrap();
        assert!(server.exists("k"));
        guard.release().await.unwrap();
    });
    assert!(!server.exists("k"));
}
