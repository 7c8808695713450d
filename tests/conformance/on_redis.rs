//! Tests that check a Redis server from outside.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use distlock::LockError;
use distlock::blocking::LockManager;
use distlock_tests::{RedisServer, Tally, eventually, until_waiting};

/// Much longer than any test runs.
const LONG: Duration = Duration::from_secs(600);
const CROWD: u32 = 1_000;

#[tokio::test]
async fn free_keys_cost_one_command_and_their_release_one_each() {
    let server = RedisServer::start();
    let manager = distlock::LockManager::connect(&server.url()).await.unwrap();
    let keys = ["a", "b", "c", "d", "e"];
    for kind in ["exclusive", "shared"] {
        let request = manager.lock_all(keys);
        let request = if kind == "shared" { request.shared() } else { request };
        let scripts = || server.calls("evalsha");
        let before = scripts();
        let (texts, sets, start) = (server.calls("eval"), server.calls("set"), std::time::Instant::now());
        let guard = request.acquire().await.unwrap();
        assert_eq!(scripts() - before, 1, "{kind}");
        // Commands inside the script are counted, too. There are no others.
        let sets = server.calls("set") - sets;
        // The manager also writes its record every five seconds.
        let most = 5 + 1 + start.elapsed().as_secs() / 5;
        assert!((5..=most).contains(&sets), "{kind}: {sets}");
        guard.release().await.unwrap();
        assert_eq!(scripts() - before, 1 + 5, "{kind}");
        assert_eq!(server.calls("eval"), texts, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_busy_key_one_command_takes_the_rest() {
    let server = RedisServer::start();
    let one = distlock::LockManager::connect(&server.url()).await.unwrap();
    let other = distlock::LockManager::connect(&server.url()).await.unwrap();
    let guard = one.lock("b").acquire().await.unwrap();
    let before = server.calls("evalsha");
    let waiter = tokio::spawn(other.lock_all(["a", "b", "c", "d", "e"]).wait(LONG).acquire());
    eventually("it waits", async || server.run::<u64>("LLEN dl1:q:b") == 1).await;
    guard.release().await.unwrap();
    let all = waiter.await.unwrap().unwrap();
    // For `a` and `b`, to queue for `b`, for its release, and for the rest. There may be a renewal.
    let calls = server.calls("evalsha") - before;
    assert!((4..=5).contains(&calls), "{calls} commands");
    all.release().await.unwrap();
    eventually("nothing is left", async || server.keys().is_empty()).await;
}

/// The stack is small, because a thousand of these threads must fit.
fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::Builder::new().stack_size(256 * 1024).spawn(work).unwrap()
}

async fn join<T: Send + 'static>(threads: Vec<JoinHandle<T>>) -> Vec<T> {
    let all =
        tokio::task::spawn_blocking(|| threads.into_iter().map(|thread| thread.join().unwrap()).collect());
    all.await.unwrap()
}

/// Starts threads that each count once under the lock.
fn crowd(manager: &LockManager, tally: &Arc<Tally>) -> Vec<JoinHandle<Result<(), LockError>>> {
    let threads = (0..CROWD).map(|_| {
        let (request, tally) = (manager.lock("k").wait(LONG), tally.clone());
        spawn(move || request.run(|_| tally.increment_blocking()))
    });
    threads.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_threads_share_the_two_connections_of_their_manager() {
    let server = RedisServer::start();
    let connect = || distlock::LockManager::connect(server.url());
    let (one, other) = (connect().await.unwrap(), connect().await.unwrap());
    let tally = Arc::new(Tally::default());
    let guard = one.lock("k").acquire().await.unwrap();
    let threads = crowd(&LockManager::from(other.clone()), &tally);
    until_waiting(&other, "k", u64::from(CROWD)).await;
    let clients = server.text(&["CLIENT", "LIST"]);
    // A connection for commands and one for pushes, of both managers. The fixture connects as a separate user.
    assert_eq!(clients.lines().filter(|line| line.contains("user=default")).count(), 4, "{clients}");
    guard.release().await.unwrap();
    for result in join(threads).await {
        result.unwrap();
    }
    assert_eq!(tally.value(), u64::from(CROWD));
}
