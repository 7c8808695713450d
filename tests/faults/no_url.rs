//! The URL comes from the environment, or does not.

use std::process::Command;

use distlock::{LockError, LockManager};
use distlock_tests::{LockClient, RedisServer};

use super::assert_says;

#[tokio::test]
async fn a_missing_variable_is_named() {
    let error = LockManager::from_env().await.unwrap_err();
    assert!(matches!(error, LockError::InvalidOptions { .. }), "{error:?}");
    assert_says(&error, "DISTLOCK_URL");
}

#[tokio::test]
async fn the_variable_is_used() {
    let server = RedisServer::start();
    let client = env!("CARGO_BIN_EXE_lock-client");
    let mut client = LockClient::spawn(Command::new(client).arg("env").env("DISTLOCK_URL", server.url()));
    client.expect("ready");
    assert_eq!(client.ask("acquire k 10000 0").name(), "acquired");
    assert!(server.exists("k"));
}

#[tokio::test]
async fn a_builder_without_a_url_says_so() {
    let refused = LockManager::builder().connect().await;
    assert!(matches!(refused, Err(LockError::InvalidOptions { .. })), "{refused:?}");
}
