//! Cases in which fencing tokens fall. Each test provokes a row of "When can a token fall" in `docs/faults.md`, so the
//! page promises neither too much nor too little.

use std::time::Duration;

use distlock::LockManager;
use distlock_fixtures::{MariaDbServer, PostgresServer};
use distlock_tests::{EtcdServers, RedisServer, ZooKeeperServers};

/// The last of several tokens that a new manager gets for one key.
async fn token(url: &str) -> u64 {
    let manager = LockManager::connect(url).await.unwrap();
    let mut last = 0;
    for _ in 0..5 {
        let guard = manager.lock("k").ttl(Duration::from_secs(60)).fenced().acquire().await.unwrap();
        let token = guard.fencing_token().unwrap().get();
        assert!(token > last, "{token} after {last}");
        last = token;
        guard.release().await.unwrap();
    }
    manager.shutdown(Duration::from_secs(5)).await;
    last
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_without_its_counter_and_with_its_clock_set_back() {
    let server = RedisServer::options().stepped_clock().start();
    let before = token(&server.url()).await;
    server.run::<()>("FLUSHALL");
    let risen = token(&server.url()).await;
    assert!(risen > before, "the clock goes on: {risen} after {before}");
    server.step_clock_back(Duration::from_secs(3_600));
    server.run::<()>("FLUSHALL");
    let after = token(&server.url()).await;
    let fallen = Duration::from_micros(before - after);
    assert!(fallen <= Duration::from_secs(3_600), "by the jump at most: {fallen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_with_emptied_tables() {
    let server = PostgresServer::start();
    let before = token(&server.url()).await;
    server.run("TRUNCATE distlock.lock_1, distlock.floor_1").await;
    let after = token(&server.url()).await;
    assert!(after <= before, "{after} after {before}");
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_with_tables_that_were_dropped() {
    let server = MariaDbServer::start();
    let before = token(&server.url()).await;
    server.run("DROP TABLE distlock_lock_1, distlock_holder_1, distlock_floor_1").await;
    let after = token(&server.url()).await;
    assert!(after <= before, "{after} after {before}");
}

/// The commits of the last second are only in the memory of the killed process.
#[tokio::test(flavor = "multi_thread")]
async fn mariadb_that_does_not_flush_and_is_killed() {
    let mut server = MariaDbServer::with(&["--innodb-flush-log-at-trx-commit=0"]);
    let mut last = token(&server.url()).await;
    for _ in 0..20 {
        server.kill9();
        server.restart();
        let next = token(&server.url()).await;
        // There were five tokens before the crash, and five after it.
        if next < last + 5 {
            return;
        }
        last = next;
    }
    panic!("no token was lost in twenty crashes");
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_started_again_empty() {
    let before = {
        let server = EtcdServers::one();
        token(&server.url()).await;
        token(&server.url()).await
    };
    let after = token(&EtcdServers::one().url()).await;
    assert!(after < before, "{after} after {before}");
}

#[tokio::test(flavor = "multi_thread")]
async fn zookeeper_started_again_empty() {
    let before = {
        let server = ZooKeeperServers::one();
        token(&server.url()).await;
        token(&server.url()).await
    };
    let after = token(&ZooKeeperServers::one().url()).await;
    assert!(after < before, "{after} after {before}");
}
