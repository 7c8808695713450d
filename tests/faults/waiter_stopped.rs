//! SIGSTOP of a waiter's process: the lock that was granted to it passes to the next waiter. When the process resumes,
//! it does not rely on the old grant.

use std::time::{Duration, Instant};

use distlock_tests::{LockClient, RedisServer, residue, until_waiting};

use super::{LONG, connect};

const CLIENT: &str = env!("CARGO_BIN_EXE_lock-client");

/// Claim time (3 s) and jitter, with a margin for a busy machine.
const CLAIM: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_waiter_is_passed_over_and_gets_its_turn_when_it_goes_on() {
    let server = RedisServer::start();
    let manager = connect(&server).await;
    let guard = manager.lock("k").ttl(LONG).fenced().acquire().await.unwrap();
    let mut stopped = LockClient::connect(CLIENT, &server.url());
    stopped.send("acquire k 600000 600000 fenced");
    until_waiting(&manager, "k", 1).await;
    stopped.stop();
    let start = Instant::now();
    guard.release().await.unwrap();
    let next = manager.lock("k").ttl(LONG).wait(LONG).fenced().acquire().await.unwrap();
    assert!(start.elapsed() < CLAIM, "{:?}", start.elapsed());
    stopped.cont();
    until_waiting(&manager, "k", 1).await;
    assert_eq!(stopped.try_next(), None, "it waits, whatever was granted to it while it was stopped");
    next.check().unwrap();
    let fence = next.fencing_token().unwrap().get();
    next.release().await.unwrap();
    assert!(stopped.expect("acquired").number("fence").unwrap() > fence);
    assert_eq!(stopped.ask("release k").name(), "released");
    residue::none(&server).await;
}
