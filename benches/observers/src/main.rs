//! The cost of observers for an uncontended lock on Redis: time, instructions, allocations.
//!
//! ```text
//! cargo run --release -p distlock-benches-observers
//! ```
//!
//! Valgrind's callgrind counts the instructions in separate processes, so they do not depend on a busy machine. Times
//! are measured in turns, and a ratio compares neighbouring turns.

#![allow(clippy::print_stdout, reason = "a bench prints its figures")]

use std::alloc::System;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use distlock_benches_observers::{Locks, Observed, install};
use distlock_fixtures::RedisServer;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The number of locks in a turn.
const SLICE: usize = 200;
const ROUNDS: usize = 60;
/// Instructions are counted between these two numbers of locks.
const FEW: usize = 300;
const MANY: usize = 1_300;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &*arguments {
        [count, observed, url, locks] if count == "count" => only_lock(observed, url, locks),
        _ => measure(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// The program that runs under callgrind.
fn only_lock(observed: &str, url: &str, locks: &str) -> Result<()> {
    install();
    let observed = Observed::ALL.into_iter().find(|one| one.word() == observed).ok_or("observed by whom?")?;
    let (mut manager, count) = (Locks::new(url, observed)?, locks.parse::<usize>()?);
    block_on(async {
        for _ in 0..count {
            manager.lock().await?;
        }
        Ok(())
    })
}

fn measure() -> Result<()> {
    install();
    let server = RedisServer::start();
    let figures = block_on(times(&server.url()))?;
    println!("observed by      p50 (ratio)          locks/s (ratio)   allocations   instructions (ratio)");
    let mut base = None;
    for (observed, figure) in Observed::ALL.into_iter().zip(figures) {
        let instructions = instructions(&server.url(), observed)?;
        let base = *base.get_or_insert(instructions);
        println!(
            "{:<15} {:>8.1?} ({:.3})    {:>8.0} ({:.3})   {:>8.2}   {:>12.0} ({:.3})",
            observed.word(),
            figure.p50,
            figure.p50_ratio,
            figure.per_second,
            figure.throughput_ratio,
            figure.allocations,
            instructions,
            instructions / base,
        );
    }
    Ok(())
}

struct Figure {
    p50: Duration,
    p50_ratio: f64,
    per_second: f64,
    throughput_ratio: f64,
    allocations: f64,
}

/// Measures each of them in turn, repeatedly.
async fn times(url: &str) -> Result<Vec<Figure>> {
    let mut all: Vec<Locks> = Observed::ALL
        .into_iter()
        .map(|observed| Locks::new(url, observed))
        .collect::<std::result::Result<_, _>>()?;
    for locks in &mut all {
        for _ in 0..SLICE {
            locks.lock().await?;
        }
    }
    let mut turns: Vec<Vec<(Duration, Duration)>> = vec![Vec::new(); all.len()];
    let mut allocations = vec![0; all.len()];
    for _ in 0..ROUNDS {
        for (number, locks) in all.iter_mut().enumerate() {
            let (mut each, region) = (Vec::with_capacity(SLICE), Region::new(ALLOCATOR));
            let begin = Instant::now();
            for _ in 0..SLICE {
                let before = Instant::now();
                locks.lock().await?;
                each.push(before.elapsed());
            }
            let whole = begin.elapsed();
            allocations[number] += region.change().allocations;
            each.sort_unstable();
            turns[number].push((each[SLICE / 2], whole));
        }
    }
    let ratios = |number: usize, of: fn(&(Duration, Duration)) -> Duration| {
        let pairs = turns[number].iter().zip(&turns[0]);
        median(pairs.map(|(one, off)| of(one).as_secs_f64() / of(off).as_secs_f64()).collect())
    };
    let figure = |number: usize| Figure {
        p50: Duration::from_secs_f64(median(turns[number].iter().map(|turn| turn.0.as_secs_f64()).collect())),
        p50_ratio: ratios(number, |turn| turn.0),
        per_second: median(turns[number].iter().map(|turn| SLICE as f64 / turn.1.as_secs_f64()).collect()),
        throughput_ratio: 1.0 / ratios(number, |turn| turn.1),
        allocations: allocations[number] as f64 / (SLICE * ROUNDS) as f64,
    };
    Ok((0..all.len()).map(figure).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The instructions for each lock, in the whole process.
fn instructions(url: &str, observed: Observed) -> Result<f64> {
    let count = |locks: usize| -> Result<f64> {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(std::env::current_exe()?);
        let output = valgrind.args(["count", observed.word(), url, &locks.to_string()]).output()?;
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            return Err(format!("{printed}{}", String::from_utf8_lossy(&output.stdout)).into());
        }
        let collected = printed.lines().find_map(|line| line.split("Collected :").nth(1));
        Ok(collected.ok_or(printed.clone())?.trim().parse()?)
    };
    let per_lock = (count(MANY)? - count(FEW)?) / (MANY - FEW) as f64;
    if per_lock < 100.0 {
        return Err("callgrind has not counted the locks".into());
    }
    Ok(per_lock)
}
