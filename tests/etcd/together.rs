//! Transactions that wait for others in flight are sent together, and each lock is decided separately.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use distlock::LockManager;
use distlock_tests::{EtcdServers, Proxy, eventually};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::etcd::{LONG, process, revision};

const KEYS: usize = 40;
const ROUNDS: usize = 10;

/// Starts a task for each key and manager, all at the same time. Returns the tasks, and the counter of their sections.
fn run(processes: &[LockManager]) -> (JoinSet<()>, Arc<AtomicUsize>) {
    let mut running = JoinSet::new();
    let done = Arc::new(AtomicUsize::new(0));
    for key in 0..KEYS {
        // The last token. The mutex is locked while a task holds the key.
        let last = Arc::new(Mutex::new(0));
        for manager in processes {
            running.spawn(sections(manager.clone(), format!("k{key}"), last.clone(), done.clone()));
        }
    }
    (running, done)
}

async fn sections(manager: LockManager, key: String, last: Arc<Mutex<u64>>, done: Arc<AtomicUsize>) {
    for _ in 0..ROUNDS {
        let guard = loop {
            match manager.lock(&*key).fenced().ttl(LONG).wait(LONG).acquire().await {
                Ok(guard) => break guard,
                Err(error) => assert!(error.is_unavailable(), "{error}"),
            }
        };
        let token = guard.fencing_token().unwrap().get();
        let mut last = last.try_lock().expect("nobody else holds it");
        assert!(token > *last, "{token} after {last}");
        *last = token;
        tokio::task::yield_now().await;
        drop(last);
        if let Err(error) = guard.release().await {
            assert!(error.is_unavailable(), "{error}");
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

async fn ended(mut running: JoinSet<()>) {
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_tasks_write_together_and_no_two_hold_a_lock() {
    let servers = EtcdServers::one();
    let processes = [process(&servers, "60s").await, process(&servers, "60s").await];
    let before = revision(&servers);
    ended(run(&processes).0).await;
    let (writes, locks) = (revision(&servers) - before, (2 * KEYS * ROUNDS) as u64);
    assert!(writes < 2 * locks, "{writes} writes for {locks} locks, each of which takes two by itself");
    servers.has_no_locks("distlock/");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_under_way_together_when_the_link_was_cut_lets_nobody_in_and_leaves_nothing() {
    let servers = EtcdServers::one();
    let proxy = Proxy::to(&servers.address(0));
    let url = format!("etcd://{}?session_timeout=60s", proxy.address());
    let processes = [LockManager::connect(&url).await.unwrap(), process(&servers, "60s").await];
    let (running, done) = run(&processes);
    for cut in 1..=3 {
        let so_many = cut * KEYS * ROUNDS / 4;
        eventually("sections were run", async || done.load(Ordering::Relaxed) >= so_many).await;
        proxy.cut();
    }
    ended(running).await;
    drop(processes);
    eventually("nothing is left", async || servers.keys("").is_empty()).await;
}
