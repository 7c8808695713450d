//! Without any tokio runtime, all timers and sockets are on the manager's own thread.

use std::time::Duration;

use distlock::{Retry, blocking::LockManager};
use distlock_tests::RedisServer;

#[test]
fn a_plain_thread_connects_waits_tries_again_and_shuts_down() {
    let server = RedisServer::start();
    let (one, other) =
        (LockManager::connect(server.url()).unwrap(), LockManager::connect(server.url()).unwrap());
    let guard = one.lock("k").acquire().unwrap();
    let soon = Duration::from_millis(20);
    assert!(other.lock("k").wait(soon).acquire().unwrap_err().is_busy());
    assert!(other.lock("k").retry(Retry::times(2).delay(soon)).acquire().unwrap_err().is_busy());
    guard.release().unwrap();
    let guard = other.lock("k").try_acquire().unwrap().expect("the lock is free");
    let report = other.shutdown(soon);
    assert_eq!((report.held, report.lost), (1, 1), "{report:?}");
    drop(guard);
    assert_eq!(one.shutdown(Duration::ZERO).held, 0);
}
