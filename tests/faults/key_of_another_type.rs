//! The key exists, but its value is not a lock.

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

/// The locks of Redisson's `RLock` and Symfony's `RedisStore` are respected, and are not mistaken for locks of
/// distlock.
#[tokio::test]
async fn locks_of_redisson_and_symfony_are_seen_and_stay() {
    let server = RedisServer::start();
    server.raw(&["HSET", "redisson", "8743c9c0-0795-4907-87fd-6c719a6b4586:1", "1"]);
    server.raw(&["ZADD", "symfony", "9999999999999", "token", "9999999999999", "__write__"]);
    let manager = connect(&server).await;
    for key in ["redisson", "symfony"] {
        let refused = [
            manager.lock(key).acquire().await.map(drop),
            manager.lock(key).shared().acquire().await.map(drop),
            manager.lock(key).max_holders(3).acquire().await.map(drop),
        ];
        for refused in refused {
            let error = refused.unwrap_err();
            assert!(matches!(error, LockError::WrongKind { .. }), "{error:?}");
        }
    }
    assert_eq!(server.raw(&["HLEN", "redisson"]), redis::Value::Int(1));
    assert_eq!(server.raw(&["ZCARD", "symfony"]), redis::Value::Int(2));
}
