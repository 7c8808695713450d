//! A store with a queue, whose release grants the lock to the first waiter.

#![allow(clippy::expect_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use distlock::LockManager;
use distlock::testing::{drop_after, eventually};
use distlock_toy_store::{ToyServer, ToyStore};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

const WAIT: Duration = Duration::from_secs(600);

async fn process(server: &ToyServer) -> LockManager {
    let store = ToyStore::with_queue(server.address());
    LockManager::builder().store(store).connect().await.expect("the server runs")
}

async fn waiters(manager: &LockManager, key: &str) -> u64 {
    manager.inspect(key).await.expect("the server runs").map_or(0, |lock| lock.waiters)
}

/// Starts one manager after the other. Each is in the queue before the next one asks.
async fn in_line(server: &ToyServer, holder: &LockManager, count: u64) -> Vec<LockManager> {
    let mut processes = Vec::new();
    for _ in 0..count {
        processes.push(process(server).await);
    }
    assert_eq!(waiters(holder, "k").await, 0);
    processes
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_are_served_in_the_order_in_which_they_came() {
    let server = ToyServer::start().await.expect("there is a free port");
    let first = process(&server).await;
    let guard = first.lock("k").acquire().await.expect("it is free");
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for (number, manager) in in_line(&server, &first, 5).await.into_iter().enumerate() {
        let order = order.clone();
        tasks.push(tokio::spawn(async move {
            let guard = manager.lock("k").wait(WAIT).acquire().await?;
            order.lock().expect("nobody panics").push(number);
            guard.release().await
        }));
        eventually("it stands in the queue", async || waiters(&first, "k").await == number as u64 + 1).await;
    }
    guard.release().await.expect("it is held");
    for task in tasks {
        task.await.expect("it does not panic").expect("it gets the lock");
    }
    assert_eq!(*order.lock().expect("nobody panics"), [0, 1, 2, 3, 4]);
    assert_eq!(server.keys(), Vec::<String>::new());
}

/// The waiter relies on the grant immediately, because the store reports its age. So it only requests a place, and
/// releases.
#[tokio::test(flavor = "multi_thread")]
async fn a_hand_off_costs_two_requests() {
    const ROUNDS: u64 = 50;
    let server = ToyServer::start().await.expect("there is a free port");
    let two = [process(&server).await, process(&server).await];
    let mut guard = two[0].lock("k").fenced().acquire().await.expect("it is free");
    let mut last = guard.fencing_token();
    let before = server.requests();
    let mut looked = 0;
    for round in 0..ROUNDS {
        let next = &two[usize::from(round % 2 == 0)];
        let waiting = tokio::spawn(next.lock("k").fenced().wait(WAIT).acquire());
        eventually("it stands in the queue", async || {
            looked += 1;
            waiters(next, "k").await == 1
        })
        .await;
        guard.release().await.expect("it is held");
        guard = waiting.await.expect("it does not panic").expect("it gets the lock");
        assert!(guard.fencing_token() > last, "{:?} after {last:?}", guard.fencing_token());
        last = guard.fencing_token();
    }
    let requests = server.requests() - before - looked;
    guard.release().await.expect("it is held");
    // A few waiters ask again if the machine is busy.
    assert!(requests <= 2 * ROUNDS + ROUNDS / 5, "{requests} requests for {ROUNDS} hand-offs");
}

/// A waiter that is cancelled at any point leaves no place in the queue and no unused grant.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_goes_leaves_nothing_for_others_to_wait_for() {
    let server = ToyServer::start().await.expect("there is a free port");
    let (one, other, third) = (process(&server).await, process(&server).await, process(&server).await);
    for polls in 1..=5 {
        let guard = one.lock("k").acquire().await.expect("it is free");
        tokio::select! {
            dropped = drop_after(polls, other.lock("k").acquire()) => assert!(dropped.is_none()),
            // It is not polled again until the lock is free.
            _ = eventually("it stands in the queue", async || waiters(&one, "k").await == 1) => {}
        }
        guard.release().await.expect("it is held");
        third
            .lock("k")
            .wait(WAIT)
            .acquire()
            .await
            .expect("nobody has it")
            .release()
            .await
            .expect("it is held");
    }
    for _ in 0..20 {
        let guard = one.lock("k").wait(WAIT).acquire().await.expect("nobody keeps it");
        let waiting = tokio::spawn(other.lock("k").wait(WAIT).acquire());
        eventually("it stands in the queue", async || waiters(&one, "k").await == 1).await;
        // The grant arrives before, during or after the cancellation.
        let released = tokio::spawn(guard.release());
        waiting.abort();
        released.await.expect("it does not panic").expect("it is held");
        if let Ok(got) = waiting.await {
            got.expect("it gets the lock").release().await.expect("it is held");
        }
    }
    third.lock("k").wait(WAIT).acquire().await.expect("nobody has it").release().await.expect("it is held");
    eventually("nothing is left", async || server.keys().is_empty()).await;
}

/// A connection without a manager, like a process that the test lets die.
struct Raw(BufReader<TcpStream>);

impl Raw {
    async fn to(server: &ToyServer) -> Self {
        Raw(BufReader::new(TcpStream::connect(server.address()).await.expect("the server runs")))
    }

    /// Sends a request, and returns the reply.
    async fn ask(&mut self, request: &str) -> String {
        self.0.get_mut().write_all(format!("1 - {request}\n").as_bytes()).await.expect("connected");
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).await.expect("connected");
            if let Some(answer) = line.trim_end().strip_prefix("1 ") {
                return answer.to_owned();
            }
        }
    }
}

/// A request for the key `k`: an exclusive lock without fencing tokens, for ten minutes.
fn acquire(owner: u32, place: &str) -> String {
    format!("ACQUIRE 6b dl1:c:{owner} 600000 x 0 {place}")
}

/// The contract requires this of a store with a queue.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_ends_with_its_claim_and_a_place_with_its_life() {
    let server = ToyServer::start().await.expect("there is a free port");
    let mut raw = Raw::to(&server).await;
    assert!(raw.ask(&acquire(1, "")).await.starts_with("ACQUIRED"));
    for owner in [2, 3] {
        assert!(raw.ask(&acquire(owner, "50 600000")).await.starts_with("BUSY"));
    }
    assert_eq!(raw.ask("RELEASE 6b dl1:c:1").await, "RELEASED");
    // The second owner was granted the lock and does not ask. So its claim ends, and the third is next.
    let mut is_next = async || raw.ask(&acquire(3, "50 600000")).await.starts_with("HELD");
    eventually("the claim is over", &mut is_next).await;
    assert!(raw.ask(&acquire(4, "600000 50")).await.contains(" FIRST dl1:c:3 "));
    assert!(raw.ask("INSPECT 6b").await.starts_with("LOCK x - 1 "));
    let mut is_gone = async || raw.ask("INSPECT 6b").await.starts_with("LOCK x - 0 ");
    eventually("the place is gone", &mut is_gone).await;
    assert_eq!(raw.ask("RELEASE 6b dl1:c:3").await, "RELEASED");
    assert_eq!(server.keys(), Vec::<String>::new());
}
