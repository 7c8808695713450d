//! The number of the database in the URL.

use distlock::LockManager;
use distlock_tests::RedisServer;

use super::assert_says;

#[tokio::test]
async fn a_database_that_is_not_there_is_an_error_at_connect() {
    let server = RedisServer::options().databases(4).start();
    let error = LockManager::connect(&server.url_of_database(9)).await.unwrap_err();
    assert!(!error.is_busy(), "{error:?}");
    assert_says(&error, "DB index");
}

#[tokio::test]
async fn locks_are_kept_in_the_database_of_the_url() {
    let server = RedisServer::start();
    let (three, zero) = (
        LockManager::connect(&server.url_of_database(3)).await.unwrap(),
        LockManager::connect(&server.url()).await.unwrap(),
    );
    let guard = three.lock("k").acquire().await.unwrap();
    assert!(!server.exists("k"));
    zero.lock("k").no_wait().acquire().await.unwrap().release().await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_database_that_is_not_a_number_is_an_invalid_option() {
    let server = RedisServer::start();
    let refused = LockManager::connect(&format!("{}orders", server.url())).await;
    assert!(matches!(refused, Err(distlock::LockError::InvalidOptions { .. })), "{refused:?}");
}
