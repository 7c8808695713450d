//! The cost of a request inside a section that does not wait, or waits for less than a second, compared with the same
//! request outside. It runs in memory on one thread, so nothing else takes time.
//!
//! `cargo bench -p distlock-benches --bench nested`

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use distlock::{LockError, LockManager};

const ROUNDS: usize = 31;
const REQUESTS: u32 = 20_000;

/// The time of one request for a free lock, and of one that begins to wait and is dropped.
async fn measure(manager: &LockManager) -> Result<[Duration; 2], LockError> {
    let start = Instant::now();
    for _ in 0..REQUESTS {
        manager.lock("free").acquire().await?.release().await?;
    }
    let free = start.elapsed() / REQUESTS;
    let start = Instant::now();
    for _ in 0..REQUESTS {
        let waiting = pin!(manager.lock("busy").acquire());
        assert!(waiting.poll(&mut Context::from_waker(Waker::noop())).is_pending(), "the lock is held");
    }
    Ok([free, start.elapsed() / REQUESTS])
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn main() -> Result<(), LockError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| LockError::unavailable("runtime", error))?;
    // Otherwise the cooperative budget of tokio would soon make the polls of this task return immediately.
    runtime.block_on(tokio::task::unconstrained(async {
        let manager = LockManager::in_memory();
        let _busy = manager.lock("busy").acquire().await?;
        let (mut outside, mut inside) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        // In turns, so that both run under the same conditions.
        for _ in 0..ROUNDS {
            let found = measure(&manager).await?;
            outside.iter_mut().zip(found).for_each(|(times, time)| times.push(time));
            let found = manager.lock("section").run(async |_| measure(&manager).await).await??;
            inside.iter_mut().zip(found).for_each(|(times, time)| times.push(time));
        }
        let [[free, waits], [free_inside, waits_inside]] =
            [outside, inside].map(|of| of.map(|times| median(times).as_nanos()));
        println!("{:<40} {:>10} {:>10}", "", "outside", "inside");
        println!("{:<40} {free:>7} ns {free_inside:>7} ns", "a free lock, acquired and released");
        println!("{:<40} {waits:>7} ns {waits_inside:>7} ns", "a wait that begins and is dropped");
        Ok(())
    }))
}
