//! The user's runtime is blocked for longer than the ttl. Renewal continues, because it has a separate thread.

use std::thread;
use std::time::Duration;

use distlock::Guard;
use distlock_tests::{RedisServer, eventually_blocking};

use super::{LONG, connect};

#[test]
fn a_lease_outlives_a_blocked_runtime() {
    let server = RedisServer::start();
    let ttl = Duration::from_secs(6);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let manager = connect(&server).await;
        let guard = manager.lock("k").ttl(ttl).acquire().await.unwrap();
        // The fault itself: no task of this runtime runs meanwhile.
        for _ in 0..2 {
            blocked_until_renewed(&guard);
        }
        guard.check().unwrap();
        assert!(server.exists("k"));
        guard.release().await.unwrap();
    });
    assert!(!server.exists("k"));
}

/// Blocks this thread until the lease lasts longer than before.
fn blocked_until_renewed(guard: &Guard) {
    let mut remaining = guard.remaining();
    eventually_blocking("it is renewed", || {
        guard.check().unwrap();
        let before = std::mem::replace(&mut remaining, guard.remaining());
        remaining > before
    });
}

/// The runtime that sends quick requests reads their replies. While it does not, others read theirs.
#[test]
fn a_runtime_that_blocks_after_quick_requests_holds_nobody_up() {
    let server = RedisServer::start();
    let ttl = Duration::from_secs(6);
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
                let runtime = runtime();
                for _ in 0..1_000 {
                    runtime.block_on(manager.lock("other").wait(LONG).run(async |_| ())).unwrap();
                }
            })
        };
        // The fault itself: no task of this runtime runs meanwhile. Whoever waited for it would wait in vain.
        eventually_blocking("the others go on", || others.is_finished());
        others.join().unwrap();
        blocked_until_renewed(&guard);
        assert!(server.exists("k"));
        guard.release().await.unwrap();
    });
}
