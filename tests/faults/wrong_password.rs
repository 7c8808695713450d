//! Credentials that the server does not accept.

use std::time::{Duration, Instant};

use distlock::{Credentials, LockManager};
use distlock_tests::RedisServer;

use super::{LONG, SOON, assert_says, assert_unavailable};

#[tokio::test]
async fn a_wrong_password_is_named_at_connect_and_not_repeated() {
    let server = RedisServer::options().password("right").start();
    let url = format!("redis://:wr0ng@{}/", server.address());
    let begin = Instant::now();
    let builder = LockManager::builder().url(url).connect_timeout(Duration::from_secs(60));
    let error = builder.connect().await.unwrap_err();
    assert!(begin.elapsed() < SOON, "trying again would not help");
    assert!(!error.is_busy(), "{error:?}");
    assert_says(&error, "password");
    assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error:?}");
}

#[tokio::test]
async fn a_missing_password_is_an_error_at_connect() {
    let server = RedisServer::options().password("right").start();
    let error = LockManager::connect(&format!("redis://{}/", server.address())).await.unwrap_err();
    assert_says(&error, "auth");
}

#[tokio::test]
async fn a_lazy_manager_says_so_at_once_and_not_after_the_wait() {
    let server = RedisServer::options().password("right").start();
    let manager = LockManager::connect_lazy(format!("redis://:wr0ng@{}/", server.address())).unwrap();
    let acquire = tokio::time::timeout(SOON, manager.lock("k").wait(LONG).acquire());
    let error = acquire.await.expect("not after the wait").unwrap_err();
    assert_unavailable(&error);
    assert_says(&error, "password");
}

#[tokio::test]
async fn the_right_password_and_the_right_user_work() {
    let server = RedisServer::options().password("right").user("worker", "on >secret ~* &* +@all").start();
    for url in [server.url(), server.url_as("worker", "secret")] {
        let manager = LockManager::connect(&url).await.unwrap();
        manager.lock("k").acquire().await.unwrap().release().await.unwrap();
        assert!(!format!("{manager:?}").contains("secret"), "{manager:?}");
    }
}

#[tokio::test]
async fn a_function_that_gives_the_wrong_password_is_named_instead_of_the_url() {
    let server = RedisServer::options().password("right").start();
    let builder = LockManager::builder().url(format!("redis://{}/", server.address()));
    let builder = builder.credentials(|| async { Ok::<_, std::io::Error>(Credentials::password("wr0ng")) });
    let error = builder.connect().await.unwrap_err();
    assert_says(&error, "the function given to `credentials`");
    assert!(!format!("{error} {error:?}").contains("URL"), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("wr0ng"), "{error:?}");
}
