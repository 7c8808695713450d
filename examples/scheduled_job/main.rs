//! A job that every instance of a service has in its schedule, and that must run once per interval.
//!
//! ```text
//! cargo run --release --example scheduled_job                              instances in this process
//! cargo run --release --example scheduled_job -- --url redis://127.0.0.1/  through Redis
//! cargo run --release --example scheduled_job -- --url redis://127.0.0.1/ --processes 4
//! ```
//!
//! The function to copy is `Instance::send_report`. `min_hold` keeps the lock past the end of the job, so that an
//! instance whose clock or scheduler is late finds it still busy. With `wait = "0s"` and `on_busy` that is no error.

#![allow(clippy::print_stderr)]

mod ledger;
mod schedule;

use std::{
    path::PathBuf,
    process::{ExitCode, Stdio},
    time::Duration,
};

use clap::{Parser, ValueEnum};
use distlock::{LockError, LockManager, distributed_lock};
use distlock_examples::{AnyError, Comparison, Side, Store, count, instances, run, table};
use ledger::Ledger;
use schedule::{EVERY, Schedule};
use tokio::{process::Command, task::JoinSet};

/// A job that every instance of a service has in its schedule, and that must run once per interval
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    store: Store,
    /// Instances in this process
    #[arg(long, default_value = "4", value_parser = count())]
    instances: usize,
    /// Instances as processes of their own; needs a --url that they can share
    #[arg(long, conflicts_with = "instances", value_parser = count())]
    processes: Option<usize>,
    /// For how many intervals of half a second
    #[arg(long, default_value = "5", value_parser = clap::value_parser!(u64).range(1..))]
    intervals: u64,
}

/// The arguments of an instance that is a process of its own.
#[derive(Debug, Parser)]
struct Worker {
    #[command(flatten)]
    store: Store,
    #[arg(long)]
    side: Side,
    #[arg(long)]
    first: u64,
    #[arg(long)]
    intervals: u64,
    #[arg(long)]
    ledger: PathBuf,
}

/// The first word of such an instance's command line.
const WORKER: &str = "worker";

/// Time for processes to start and connect before the first interval.
const HEAD_START: u64 = 3;

#[derive(Debug, thiserror::Error)]
enum JobError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    File(#[from] std::io::Error),
}

/// One instance of the service.
#[derive(Debug, Clone)]
struct Instance {
    locks: LockManager,
    ledger: Ledger,
}

impl Instance {
    /// Sends the report of an interval, unless another instance does or has done so.
    #[distributed_lock(
        key = "job:report",
        ttl = "10s",
        min_hold = EVERY * 4 / 5,
        wait = "0s",
        on_busy = Ok(()),
        manager = self.locks
    )]
    async fn send_report(&self, interval: u64) -> Result<(), JobError> {
        self.send_report_unguarded(interval).await
    }

    /// The same without the lock: every instance sends it.
    async fn send_report_unguarded(&self, interval: u64) -> Result<(), JobError> {
        tokio::time::sleep(Duration::from_millis(2)).await;
        Ok(self.ledger.add(interval)?)
    }

    /// Works until the schedule ends.
    async fn work(self, schedule: Schedule, side: Side) -> Result<(), JobError> {
        for interval in schedule.intervals() {
            if !schedule::begin_of(interval).await {
                continue;
            }
            match side {
                Side::Guarded => self.send_report(interval).await?,
                Side::Unguarded => self.send_report_unguarded(interval).await?,
            }
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).peekable();
    if words.peek().is_none_or(|first| first != WORKER) {
        return run(compare).await;
    }
    match worker(Worker::parse_from(words)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

async fn compare(options: Options) -> Result<Comparison, AnyError> {
    let Options { store: Store { url }, instances, processes, intervals } = options;
    if processes.is_some() && url.starts_with("memory:") {
        return Err(
            "`--processes` needs a lock server that they can share: `--url redis://127.0.0.1/`".into()
        );
    }
    let directory = tempfile::tempdir()?;

    let mut table = table(["", "intervals", "reports", "sent twice or more", "left out"]);
    let mut runs = ledger::Runs::default();
    for side in Side::BOTH {
        let ledger = Ledger::new(directory.path().join(side.name()));
        let ahead = if processes.is_some() { HEAD_START } else { 1 };
        let schedule = Schedule::starting_in(ahead, intervals);
        match processes {
            Some(count) => in_processes(&url, count, &ledger, schedule, side).await?,
            None => in_tasks(&url, instances, &ledger, schedule, side).await?,
        }
        runs = ledger.runs(schedule.intervals())?;
        table.add_row([
            side.name().to_owned(),
            intervals.to_string(),
            runs.total.to_string(),
            runs.repeated.to_string(),
            runs.left_out.to_string(),
        ]);
    }
    let instances = match processes {
        Some(count) => format!("{count} processes"),
        None => format!("{instances} instances in one process"),
    };
    Ok(Comparison {
        title: format!("{instances} with the same schedule: one report every {EVERY:?}"),
        table,
        verdict: format!("With the lock {} intervals have more than one report.", runs.repeated),
        kept: runs.repeated == 0 && runs.total > 0,
    })
}

async fn in_tasks(
    url: &str,
    count: usize,
    ledger: &Ledger,
    schedule: Schedule,
    side: Side,
) -> Result<(), AnyError> {
    let mut working = JoinSet::new();
    for locks in instances(url, count).await? {
        working.spawn(Instance { locks, ledger: ledger.clone() }.work(schedule, side));
    }
    while let Some(ended) = working.join_next().await {
        ended??;
    }
    Ok(())
}

async fn in_processes(
    url: &str,
    count: usize,
    ledger: &Ledger,
    schedule: Schedule,
    side: Side,
) -> Result<(), AnyError> {
    let side = side.to_possible_value().ok_or("both sides have names")?;
    let mut working = Vec::new();
    for _ in 0..count {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([WORKER, "--side", side.get_name(), "--url", url]);
        command.args(["--first", &schedule.first.to_string(), "--intervals", &schedule.count.to_string()]);
        command.arg("--ledger").arg(ledger.path());
        working.push(command.stdin(Stdio::null()).kill_on_drop(true).spawn()?);
    }
    for mut process in working {
        let status = process.wait().await?;
        if !status.success() {
            return Err(format!("an instance ended: {status}").into());
        }
    }
    Ok(())
}

/// One instance as a process of its own.
async fn worker(told: Worker) -> Result<(), AnyError> {
    let Worker { store, side, first, intervals: count, ledger } = told;
    let locks = LockManager::connect(&store.url).await?;
    let instance = Instance { locks: locks.clone(), ledger: Ledger::new(ledger) };
    instance.work(Schedule { first, count }, side).await?;
    locks.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_guarded_job_runs_once_per_interval() {
        let directory = tempfile::tempdir().unwrap();
        for side in Side::BOTH {
            let ledger = Ledger::new(directory.path().join(side.name()));
            let schedule = Schedule::starting_in(1, 2);
            in_tasks("memory:", 3, &ledger, schedule, side).await.unwrap();
            let runs = ledger.runs(schedule.intervals()).unwrap();
            assert!(runs.total > 0);
            assert_eq!(runs.repeated == 0, side == Side::Guarded, "{runs:?}");
        }
    }
}
