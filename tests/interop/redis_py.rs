//! `redis.lock.Lock` of the Python package, in a separate process.
//!
//! These tests need more than a server, so plain `cargo test` does not run them. The test command installs their
//! requirements and runs them.

use std::process::Command;

use distlock_tests::{LockClient, RedisServer};

use crate::interop::judge::{KEY, TTL, contest};

const PROGRAM: &str = include_str!("redis_py_client.py");

/// A Python that can `import redis`.
pub(crate) fn python() -> Command {
    let name = std::env::var("DISTLOCK_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found = Command::new(&name).args(["-c", "import redis"]).output();
    assert!(
        found.is_ok_and(|output| output.status.success()),
        "`{name}` cannot import redis: install it with `apt-get install python3-redis` or `pip install redis`, or name \
         another Python in DISTLOCK_TEST_PYTHON"
    );
    Command::new(name)
}

fn client(server: &RedisServer) -> LockClient {
    let client = LockClient::spawn(python().args(["-u", "-c", PROGRAM]).arg(server.port().to_string()));
    client.expect("ready");
    client
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python with the redis package: ./scripts/test.sh"]
async fn its_lock_and_our_waiters_exclude_each_other_and_both_make_progress() {
    let server = RedisServer::start();
    contest(&server, client(&server), "redis-py").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python with the redis package: ./scripts/test.sh"]
async fn each_sees_the_lock_of_the_other() {
    let server = RedisServer::start();
    let manager = distlock::LockManager::connect(&server.url()).await.unwrap();
    let mut python = client(&server);
    let ttl = TTL.as_millis();
    assert_eq!(python.ask(&format!("try {KEY} {ttl}")).name(), "acquired");
    assert!(manager.lock(KEY).try_acquire().await.unwrap().is_none());
    assert_eq!(python.ask(&format!("release {KEY}")).name(), "released");
    let guard = manager.lock(KEY).ttl(TTL).no_wait().acquire().await.unwrap();
    assert_eq!(python.ask(&format!("try {KEY} {ttl}")).name(), "busy");
    guard.release().await.unwrap();
    assert_eq!(python.ask(&format!("try {KEY} {ttl}")).name(), "acquired");
    assert_eq!(python.ask(&format!("release {KEY}")).name(), "released");
}

/// A value that is escaped gives another key than the one of a program in another language. With `:raw`, the keys are
/// equal.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Python with the redis package: ./scripts/test.sh"]
async fn a_value_with_a_colon_is_the_same_key_only_if_it_is_raw() {
    #[distlock::distributed_lock(key = "file:<path>", wait = "0s", manager = manager)]
    async fn escaped(manager: &distlock::LockManager, path: &str) -> Result<(), distlock::LockError> {
        Ok(())
    }
    #[distlock::distributed_lock(key = "file:<path:raw>", wait = "0s", manager = manager)]
    async fn raw(manager: &distlock::LockManager, path: &str) -> Result<(), distlock::LockError> {
        Ok(())
    }
    let server = RedisServer::start();
    let manager = distlock::LockManager::connect(&server.url()).await.unwrap();
    let mut python = client(&server);
    let ttl = TTL.as_millis();
    for (key, raw_is_busy) in [("file:a:b", true), ("file:a%3Ab", false)] {
        assert_eq!(python.ask(&format!("try {key} {ttl}")).name(), "acquired");
        assert_eq!(raw(&manager, "a:b").await.is_err_and(|error| error.is_busy()), raw_is_busy, "{key}");
        assert_eq!(escaped(&manager, "a:b").await.is_err_and(|error| error.is_busy()), !raw_is_busy, "{key}");
        assert_eq!(python.ask(&format!("release {key}")).name(), "released");
    }
}
