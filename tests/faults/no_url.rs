//! The URL in the environment is present, missing, or invalid.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, process::Command};

use distlock::{LockError, LockManager};
use distlock_tests::{LockClient, RedisServer};

use super::assert_says;

#[tokio::test]
async fn a_missing_variable_is_named() {
    let error = LockManager::from_env().await.unwrap_err();
    assert!(matches!(error, LockError::InvalidOptions { .. }), "{error:?}");
    assert_says(&error, "DISTLOCK_URL is not set");
}

#[test]
fn a_value_that_is_not_utf_8_is_not_quoted() {
    let value = OsStr::from_bytes(b"redis://user:secret\xff@127.0.0.1/");
    let client = env!("CARGO_BIN_EXE_lock-client");
    let output = Command::new(client).arg("env").env("DISTLOCK_URL", value).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("DISTLOCK_URL is not UTF-8"), "{said}");
    assert!(!said.contains("secret"), "{said}");
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
