//! The key is there and is not a lock at all.

use distlock::LockError;
use distlock_tests::RedisServer;

use super::{assert_says, connect};

#[tokio::test]
async fn it_is_an_error_of_its_own_and_the_key_stays_as_it_was() {
    let server = RedisServer::start();
    server.raw(&["RPUSH", "k", "a", "b"]);
    let manager = connect(&server).await;
    let acquired = manager.lock("k").acquire().await.map(drop);
    let tried = manager.lock("k").try_acquire().await.map(drop);
    let fenced = manager.lock("k").fenced().acquire().await.map(drop);
    for refused in [acquired, tried, fenced] {
        let error = refused.unwrap_err();
        assert!(matches!(error, LockError::WrongKind { .. }), "{error:?}");
        assert_says(&error, "`k`");
    }
    assert_eq!(server.raw(&["LLEN", "k"]), redis::Value::Int(2));
    assert_eq!(server.keys(), ["k"]);
}

#[tokio::test]
async fn it_is_usable_once_the_foreign_key_is_gone() {
    let server = RedisServer::start();
    server.raw(&["RPUSH", "k", "a"]);
    let manager = connect(&server).await;
    assert!(manager.lock("k").acquire().await.is_err());
    server.raw(&["DEL", "k"]);
    manager.lock("k").acquire().await.unwrap().release().await.unwrap();
}
