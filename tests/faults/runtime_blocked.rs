//! The user's runtime is blocked for longer than the ttl. Renewal continues, because it has a separate thread.

use std::thread;
use std::time::{Duration, Instant};

use distlock_tests::RedisServer;

use super::{LONG, connect};

#[test]
fn a_lease_outlives_a_blocked_runtime() {
    let server = RedisServer::start();
    let ttl = Duration::from_secs(2);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let manager = connect(&server).await;
        let guard = manager.lock("k").ttl(ttl).acquire().await.unwrap();
        // The fault itself: no task of this runtime runs meanwhile.
        std::thread::sleep(ttl * 2);
        guard.check().unwrap();
        assert!(server.exists("k"));
        guard.release().await.unwrap();
    });
    assert!(!server.exists("k"));
}

/// The runtime that sends quick requests reads their replies.
#[test]
fn a_runtime_that_blocks_after_quick_requests_holds_nobody_up() {
    let server = RedisServer::start();
    let ttl = Duration::from_secs(2);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime().block_on(async {
        let manager = connect(&server).await;
        let guard = manager.lock("k").ttl(ttl).acquire().await.unwrap();
        for number in 0..1_000 {
            manager.lock(format!("quick{number}")).run(async |_| ()).await.unwrap();
        }
        let others = {
            let manager = manager.clone();
            thread::spawn(move || {
                let (start, mut longest, runtime) = (Instant::now(), Duration::ZERO, runtime());
                while start.elapsed() < ttl * 2 {
                    let begin = Instant::now();
                    runtime.block_on(manager.lock("other").wait(LONG).run(async |_| ())).unwrap();
                    longest = longest.max(begin.elapsed());
                }
                longest
            })
        };
        // The fault itself: no task of this runtime runs meanwhile.
        let longest = others.join().unwrap();
        assert!(longest < ttl / 2, "{longest:?}");
        guard.check().unwrap();
        assert!(server.exists("k"));
        guard.release().await.unwrap();
    });
}
