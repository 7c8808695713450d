//! The toy store passes the suite for all stores, with both ways to end its leases.

#![allow(clippy::expect_used)]

use std::time::{Duration, Instant};

use distlock::testing::conformance::{Fixture, Queue, conformance};
use distlock::{LockManager, LockManagerBuilder};
use distlock_toy_store::{ToyServer, ToyStore};

/// The common part of both.
macro_rules! on_the_toy_server {
    ($name:ident, $store:expr, $queue:expr) => {
        struct $name(ToyServer);

        impl Fixture for $name {
            const QUEUE: Queue = $queue;

            async fn start() -> Self {
                $name(ToyServer::start().await.expect("there is a free port"))
            }

            fn builder(&self) -> LockManagerBuilder {
                LockManager::builder().store($store(self.0.address()))
            }

            async fn residue(&self) -> Vec<String> {
                self.0.keys()
            }

            async fn cut(&self) {
                self.0.cut();
            }

            async fn mend(&self) {
                self.0.mend();
            }
        }
    };
}

mod with_ttls {
    use super::*;

    on_the_toy_server!(Toy, ToyStore::new, Queue::Hidden);
    conformance!(Toy, lacks: queue);
}

mod with_a_queue {
    use super::*;

    on_the_toy_server!(Toy, ToyStore::with_queue, Queue::Shown);
    conformance!(Toy);
}

mod with_sessions {
    use super::*;

    on_the_toy_server!(
        Toy,
        |address| ToyStore::with_sessions(address, Duration::from_secs(60)),
        Queue::Hidden
    );
    conformance!(Toy, lacks: shared, limited, min_hold, queue, ttl, hand_over);
}

const TIMEOUT: Duration = Duration::from_secs(2);

async fn process(server: &ToyServer) -> LockManager {
    let store = ToyStore::with_sessions(server.address(), TIMEOUT);
    LockManager::builder().store(store).connect().await.expect("the server runs")
}

/// The ttl does not matter, only whether the process keeps its session alive.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_lives_as_long_as_the_session_of_its_process() {
    let server = ToyServer::start().await.expect("there is a free port");
    let (one, other) = (process(&server).await, process(&server).await);
    let guard = one.lock("k").ttl(Duration::from_secs(3_600)).acquire().await.expect("it is free");
    let start = Instant::now();
    assert!(other.lock("k").wait(TIMEOUT * 2).acquire().await.is_err_and(|error| error.is_busy()));
    guard.check().expect("the session lives");
    // The server is unreachable for longer than that.
    server.cut();
    assert!(guard.lost().await.is_lost());
    assert!(start.elapsed() > TIMEOUT * 2, "{:?}", start.elapsed());
    server.mend();
    let next = other.lock("k").wait(Duration::from_secs(60)).acquire().await.expect("the session is over");
    assert!(next.is_held() && !guard.is_held());
}

/// Others do not have to wait for the session of a process that was shut down.
#[tokio::test(flavor = "multi_thread")]
async fn the_session_ends_with_the_manager() {
    let server = ToyServer::start().await.expect("there is a free port");
    let (one, other) = (process(&server).await, process(&server).await);
    one.lock("k").acquire().await.expect("it is free").release().await.expect("it is held");
    other.lock("l").acquire().await.expect("it is free").release().await.expect("it is held");
    assert_eq!(server.sessions().len(), 2);
    one.shutdown(Duration::ZERO).await;
    assert_eq!(server.sessions().len(), 1, "when the shutdown has ended");
    drop(other);
    while !server.sessions().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_it_lacks_is_refused_with_its_reason() {
    let server = ToyServer::start().await.expect("there is a free port");
    let manager = process(&server).await;
    let request = || manager.lock("k");
    for (request, reason) in [
        (request().shared(), "does not keep a shared lock: a session is one holder"),
        (request().max_holders(2), ": a session is one holder"),
        (request().min_hold(TIMEOUT), "(`min_hold`): what has no session is not kept"),
    ] {
        let text = request.acquire().await.expect_err("it is refused").to_string();
        assert!(text.contains(reason), "{text}");
    }
}
