//! A hundred thousand tasks of one process wait for one key, with empty sections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use distlock_benches::contenders::{Distlock, Locks};
use distlock_benches::options::Length;
use distlock_benches::server::Server;
use distlock_benches::stats::median;
use distlock_benches::table::{Verdicts, say};
use distlock_benches::{Result, join};

const WAITERS: usize = 100_000;
const KEY: &str = "bench:crowd";

pub(super) async fn measure(server: &Server, length: Length, verdicts: &mut Verdicts) -> Result<()> {
    say(format!("one process, {WAITERS} tasks wait for one key …"));
    let locks = Distlock::connect(&server.url()).await?;
    let mut micros = Vec::new();
    for _ in 0..length.pick(5, 2) {
        micros.push(one_run(&locks).await?);
    }
    let what = format!("{WAITERS} tasks wait for one key, empty body: µs per section");
    verdicts.at_most(what, median(&mut micros), 10.0);
    Ok(())
}

/// The time from the release that all of them wait for until the last of them has released, in microseconds for each.
async fn one_run(locks: &Distlock) -> Result<f64> {
    let first = locks.acquire(KEY).await?;
    let begun = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..WAITERS)
        .map(|_| {
            let (locks, begun) = (locks.clone(), begun.clone());
            tokio::spawn(async move {
                begun.fetch_add(1, Ordering::Relaxed);
                Distlock::release(locks.acquire(KEY).await?).await
            })
        })
        .collect();
    // A task that has begun is in the queue before its first wait.
    while begun.load(Ordering::Relaxed) < WAITERS {
        tokio::task::yield_now().await;
    }
    let start = Instant::now();
    Distlock::release(first).await?;
    for task in tasks {
        join(task).await?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / WAITERS as f64)
}
