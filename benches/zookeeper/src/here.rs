//! One process: one task, many tasks on keys of their own, many tasks on one key.

use std::time::{Duration, Instant};

use distlock_fixtures::ZooKeeperServers;

use crate::clock::{micros, monotonic};
use crate::contenders::{Distlock, Locks, RawNode};
use crate::{Result, requests};

const ROUNDS: u32 = 1_500;
const TASKS: usize = 64;
const SPAN: Duration = Duration::from_secs(5);
const CROWD: usize = 100;

/// Acquire and release, one after the other; the contenders take turns in blocks.
pub(crate) async fn alone(server: &ZooKeeperServers) -> Result<()> {
    println!("\n**One task, acquire and release**\n\n| lock | p50 | p99 |\n|-|-|-|");
    let address = server.address(0);
    let (raw, ours) = (RawNode::connect(&address).await?, Distlock::connect(&address).await?);
    let mut samples = [Vec::new(), Vec::new()];
    for block in 0..10 {
        let of = [once(&raw, ROUNDS / 5).await?, once(&ours, ROUNDS / 5).await?];
        if block > 0 {
            samples.iter_mut().zip(of).for_each(|(all, block)| all.extend(block));
        }
    }
    for (name, mut samples) in [RawNode::NAME, Distlock::NAME].into_iter().zip(samples) {
        println!("| {name} | {} µs | {} µs |", micros(&mut samples, 0.5), micros(&mut samples, 0.99));
    }
    Ok(())
}

/// Until the server's code is compiled for the machine.
pub(crate) async fn warm_up(server: &ZooKeeperServers) -> Result<()> {
    let (raw, ours) =
        (RawNode::connect(&server.address(0)).await?, Distlock::connect(&server.address(0)).await?);
    once(&raw, 2 * ROUNDS).await?;
    once(&ours, ROUNDS).await?;
    Ok(())
}

async fn once<L: Locks>(locks: &L, rounds: u32) -> Result<Vec<u64>> {
    let mut samples = Vec::new();
    for _ in 0..rounds {
        let start = monotonic();
        L::release(locks.acquire("alone").await?).await?;
        samples.push(monotonic() - start);
    }
    Ok(samples)
}

/// 64 tasks, each on a key of its own.
pub(crate) async fn tasks(server: &ZooKeeperServers) -> Result<()> {
    println!("\n**{TASKS} tasks on keys of their own**\n\n| lock | locks per s |\n|-|-|");
    let address = server.address(0);
    let (raw, ours) = (RawNode::connect(&address).await?, Distlock::connect(&address).await?);
    let (mut of_raw, mut of_ours) = (0, 0);
    for _ in 0..3 {
        of_raw += distinct(&raw).await?;
        of_ours += distinct(&ours).await?;
    }
    for (name, count) in [(RawNode::NAME, of_raw), (Distlock::NAME, of_ours)] {
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
            let (key, mut count) = (format!("task-{task}"), 0);
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
pub(crate) async fn hot(server: &ZooKeeperServers) -> Result<()> {
    println!(
        "\n**{CROWD} tasks of one process on one key, hold 1 ms**\n\n| lock | sections per s | requests per section |\n|-|-|-|"
    );
    let ours = Distlock::connect(&server.address(0)).await?;
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
    let before = requests(server);
    let sections = crowd(move || {
        let ours = ours.clone();
        async move {
            let guard = ours.acquire("hot").await?;
            tokio::time::sleep(Duration::from_millis(1)).await;
            Distlock::release(guard).await
        }
    });
    let sections = sections.await?;
    let requests = (requests(server) - before) as f64 / sections as f64;
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
