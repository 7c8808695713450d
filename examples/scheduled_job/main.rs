//! A job that every instance of a service has in its schedule, and that must run once per interval.
//!
//! ```text
//! cargo run --release --example scheduled_job                              instances in this process
//! cargo run --release --example scheduled_job -- --url redis://127.0.0.1/  through Redis
//! cargo run --release --example scheduled_job -- --url redis://127.0.0.1/ --processes 4
//! ```
//!
//! The function to copy is `Instance::send_report`. `min_hold` keeps the lock past the end of the job, so that an
//! instance whose clock or scheduler is late finds it busy still; `wait = "0s"` and `on_busy` make that no error.

#![allow(clippy::print_stderr)]

mod ledger;
mod schedule;

use std::{
    process::{ExitCode, Stdio},
    time::Duration,
};

use distlock::{LockError, LockManager, distributed_lock};
use distlock_examples::{AnyError, Args, Comparison, Table, instances, run};
use ledger::Ledger;
use schedule::{EVERY, Schedule};
use tokio::{process::Command, task::JoinSet};

const HELP: &str = "\
usage: scheduled_job [options]
  --url URL        where the locks are kept: memory: (default), redis://host:port/, ...
  --instances N    instances in this process (default 4)
  --processes N    instances as processes of their own; needs a --url that they can share
  --intervals N    for how many intervals of half a second (default 5)";

const NAMES: [&str; 7] =
    ["--url", "--instances", "--processes", "--intervals", "--worker", "--first", "--ledger"];

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

    /// Follows the schedule to its end.
    async fn work(self, schedule: Schedule, guarded: bool) -> Result<(), JobError> {
        for interval in schedule.intervals() {
            if !schedule::begin_of(interval).await {
                continue;
            }
            if guarded {
                self.send_report(interval).await?;
            } else {
                self.send_report_unguarded(interval).await?;
            }
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse(std::env::args().skip(1), &NAMES);
    match args {
        Ok(args) if args.text("--worker").is_some() => match worker(&args).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::from(2)
            }
        },
        _ => run(HELP, &NAMES[..4], compare).await,
    }
}

async fn compare(args: Args) -> Result<Comparison, AnyError> {
    let processes = args.text("--processes").is_some();
    if processes && args.url().starts_with("memory:") {
        return Err(
            "`--processes` needs a lock server that they can share: `--url redis://127.0.0.1/`".into()
        );
    }
    let count = args.number(if processes { "--processes" } else { "--instances" }, 4)?;
    let intervals = args.number("--intervals", 5)? as u64;
    let directory = tempfile::tempdir()?;

    let mut table = Table::new(["", "intervals", "reports", "sent twice or more", "left out"]);
    let mut runs = ledger::Runs::default();
    for (name, guarded) in [("unguarded", false), ("#[distributed_lock]", true)] {
        let ledger = Ledger::new(directory.path().join(name));
        let schedule = Schedule::starting_in(if processes { HEAD_START } else { 1 }, intervals);
        if processes {
            in_processes(&args, count, &ledger, schedule, guarded).await?;
        } else {
            in_tasks(args.url(), count, &ledger, schedule, guarded).await?;
        }
        runs = ledger.runs(schedule.intervals())?;
        table.row([
            name.to_owned(),
            intervals.to_string(),
            runs.total.to_string(),
            runs.repeated.to_string(),
            runs.left_out.to_string(),
        ]);
    }
    let place = if processes { "processes" } else { "instances in one process" };
    Ok(Comparison {
        title: format!("{count} {place} with the same schedule: one report every {EVERY:?}"),
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
    guarded: bool,
) -> Result<(), AnyError> {
    let mut working = JoinSet::new();
    for locks in instances(url, count).await? {
        working.spawn(Instance { locks, ledger: ledger.clone() }.work(schedule, guarded));
    }
    while let Some(ended) = working.join_next().await {
        ended??;
    }
    Ok(())
}

async fn in_processes(
    args: &Args,
    count: usize,
    ledger: &Ledger,
    schedule: Schedule,
    guarded: bool,
) -> Result<(), AnyError> {
    let mut working = Vec::new();
    for _ in 0..count {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--worker", if guarded { "guarded" } else { "unguarded" }, "--url", args.url()]);
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
async fn worker(args: &Args) -> Result<(), AnyError> {
    let ledger = Ledger::new(args.text("--ledger").ok_or("`--ledger` is missing")?.into());
    let schedule = Schedule {
        first: args.text("--first").ok_or("`--first` is missing")?.parse()?,
        count: args.number("--intervals", 1)? as u64,
    };
    let locks = LockManager::connect(args.url()).await?;
    let instance = Instance { locks: locks.clone(), ledger };
    instance.work(schedule, args.text("--worker") == Some("guarded")).await?;
    locks.shutdown(Duration::from_secs(1)).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_guarded_job_runs_once_per_interval() {
        let directory = tempfile::tempdir().unwrap();
        for guarded in [false, true] {
            let ledger = Ledger::new(directory.path().join(guarded.to_string()));
            let schedule = Schedule::starting_in(1, 2);
            in_tasks("memory:", 3, &ledger, schedule, guarded).await.unwrap();
            let runs = ledger.runs(schedule.intervals()).unwrap();
            assert!(runs.total > 0);
            assert_eq!(runs.repeated == 0, guarded, "{runs:?}");
        }
    }
}
