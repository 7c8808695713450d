//! One process: one task, many tasks on keys of their own, many tasks on one key.

use std::time::{Duration, Instant};

use crate::Result;
use crate::clock::{micros, monotonic};
use crate::contenders::{Distlock, LockCall, Locks, RawTxn};
use crate::server::EtcdServer;

const ROUNDS: u32 = 1_500;
const TASKS: usize = 64;
const SPAN: Duration = Duration::from_secs(5);
const CROWD: usize = 100;

/// Acquire and release, one after the other; the contenders take turns in blocks.
pub(crate) async fn alone(server: &EtcdServer) -> Result<()> {
    println!("\n**One task, acquire and release**\n\n| lock | p50 | p99 |\n|-|-|-|");
    let address = server.address();
    let (raw, ours, call) = (
        RawTxn::connect(&address).await?,
        Distlock::connect(&address).await?,
        LockCall::connect(&address).await?,
    );
    let mut samples = [Vec::new(), Vec::new(), Vec::new()];
    for block in 0..6 {
        let rounds = if block == 0 { 50 } else { ROUNDS / 5 };
        let of = [once(&raw, rounds).await?, once(&ours, rounds).await?, once(&call, rounds).await?];
        if block > 0 {
            samples.iter_mut().zip(of).for_each(|(all, block)| all.extend(block));
        }
    }
    for (name, mut samples) in [RawTxn::NAME, Distlock::NAME, LockCall::NAME].into_iter().zip(samples) {
        println!("| {name} | {} µs | {} µs |", micros(&mut samples, 0.5), micros(&mut samples, 0.99));
    }
    Ok(())
}

async fn once<L: Locks>(locks: &L, rounds: u32) -> Result<Vec<u64>> {
    let mut samples = Vec::new();
    for _ in 0..rounds {
        let start = monotonic();
        L::release(locks.acquire("bench/alone").await?).await?;
        samples.push(monotonic() - start);
    }
    Ok(samples)
}

/// 64 tasks, each on a key of its own.
pub(crate) async fn tasks(server: &EtcdServer) -> Result<()> {
    println!("\n**{TASKS} tasks on keys of their own**\n\n| lock | locks per s |\n|-|-|");
    let address = server.address();
    let (raw, ours) = (RawTxn::connect(&address).await?, Distlock::connect(&address).await?);
    let (mut of_raw, mut of_ours) = (0, 0);
    for _ in 0..3 {
        of_raw += distinct(&raw).await?;
        of_ours += distinct(&ours).await?;
    }
    for (name, count) in [(RawTxn::NAME, of_raw), (Distlock::NAME, of_ours)] {
        println!("| {name} | {:.0} |", count as f64 / 3.0 / SPAN.as_secs_f64());
    }
    Ok(())
}

async fn distinct<L: Locks>(locks: &L) -> Result<u64> {
    let end = Instant::now() + SPAN;
    let mut running = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let locks = locks.clone();
        running.spawn(async move {
            let (key, mut count) = (format!("bench/{task}"), 0);
            while Instant::now() < end {
                L::release(locks.acquire(&key).await?).await?;
                count += 1;
            }
            Result::Ok(count)
        });
    }
    let mut sum = 0;
    while let Some(count) = running.join_next().await {
        sum += count??;
    }
    Ok(sum)
}

/// 100 tasks on one key, beside a mutex of this process.
pub(crate) async fn hot(server: &EtcdServer) -> Result<()> {
    println!(
        "\n**{CROWD} tasks of one process on one key, hold 1 ms**\n\n| lock | sections per s | requests per section |\n|-|-|-|"
    );
    let ours = Distlock::connect(&server.address()).await?;
    let mutex = std::sync::Arc::new(tokio::sync::Mutex::new(()));
    let ideal = crowd(move || {
        let mutex = mutex.clone();
        async move {
            let _held = mutex.lock().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(())
        }
    });
    println!("| a mutex | {:.0} | |", ideal.await? as f64 / SPAN.as_secs_f64());
    let before = server.requests()?;
    let sections = crowd(move || {
        let ours = ours.clone();
        async move {
            let guard = ours.acquire("bench/hot").await?;
            tokio::time::sleep(Duration::from_millis(1)).await;
            Distlock::release(guard).await
        }
    });
    let sections = sections.await?;
    let requests = (server.requests()? - before) as f64 / sections as f64;
    println!("| distlock | {:.0} | {requests:.2} |", sections as f64 / SPAN.as_secs_f64());
    Ok(())
}

async fn crowd<F, Fut>(section: F) -> Result<u64>
where
    F: Fn() -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Result<()>> + Send,
{
    let end = Instant::now() + SPAN;
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..CROWD {
        let section = section.clone();
        running.spawn(async move {
            let mut count = 0;
            while Instant::now() < end {
                section().await?;
                count += 1;
            }
            Result::Ok(count)
        });
    }
    let mut sum = 0;
    while let Some(count) = running.join_next().await {
        sum += count??;
    }
    Ok(sum)
}
