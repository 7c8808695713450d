//! A scheduled job on `tokio-cron-scheduler`: every instance of the service has the schedule, and each firing runs on
//! one of them.
//!
//! ```text
//! cargo run --release --example cron_job                              three instances in this process
//! cargo run --release --example cron_job -- --url redis://127.0.0.1/  as if they were processes, through Redis
//! ```
//!
//! Look at `write_report`. The key names the firing. With `wait = "0s"` and `on_busy`, the second instance does not
//! wait. `min_hold` keeps the key for longer than the clocks of the machines differ: an instance whose clock is late
//! finds it taken.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::Parser;
use distlock::{LockError, LockManager, distributed_lock};
use distlock_examples::{AnyError, Store, count, instances};
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};

/// A job that every instance of a service has in its schedule, and that runs on one of them
#[derive(Debug, Parser)]
struct Options {
    #[command(flatten)]
    store: Store,
    /// Instances of the service
    #[arg(long, default_value = "3", value_parser = count())]
    instances: usize,
    /// For how many seconds
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

/// Every second.
const SCHEDULE: &str = "*/1 * * * * *";

/// How often the report of each second was written. Stands for the database.
#[derive(Debug, Clone, Default)]
struct Reports(Arc<Mutex<BTreeMap<u64, usize>>>);

impl Reports {
    fn write(&self, second: u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(second).or_default() += 1;
    }

    fn written(&self) -> BTreeMap<u64, usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns whether this instance has written the report.
#[distributed_lock(
    key = "report:<second>",
    label = "report",
    wait = "0s",
    min_hold = "30s",
    on_busy = Ok(false),
    manager = locks
)]
async fn write_report(locks: &LockManager, reports: &Reports, second: u64) -> Result<bool, LockError> {
    reports.write(second);
    Ok(true)
}

/// When the job was due: this second. For a job that runs every hour, the hour.
fn due() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The scheduler of one instance.
async fn schedule(locks: &LockManager, reports: &Reports) -> Result<JobScheduler, JobSchedulerError> {
    let scheduler = JobScheduler::new().await?;
    let (locks, reports) = (locks.clone(), reports.clone());
    let job = Job::new_async(SCHEDULE, move |_, _| {
        let (locks, reports) = (locks.clone(), reports.clone());
        Box::pin(async move {
            match write_report(&locks, &reports, due()).await {
                Ok(true) => println!("{:?} has written a report", locks),
                Ok(false) => {}
                Err(error) => eprintln!("no report: {error}"),
            }
        })
    })?;
    scheduler.add(job).await?;
    scheduler.start().await?;
    Ok(scheduler)
}

#[tokio::main]
async fn main() -> Result<(), AnyError> {
    let Options { store, instances: count, seconds } = Options::parse();
    let (managers, reports) = (instances(&store.url, count).await?, Reports::default());
    let mut schedulers = Vec::new();
    for locks in &managers {
        schedulers.push(schedule(locks, &reports).await?);
    }
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    for mut scheduler in schedulers {
        scheduler.shutdown().await?;
    }
    for locks in managers {
        locks.shutdown(Duration::from_secs(5)).await;
    }
    let written = reports.written();
    println!("{} seconds, {} reports", written.len(), written.values().sum::<usize>());
    Ok(())
}

#[cfg(test)]
mod tests {
    use distlock::testing::eventually;
    use distlock_fixtures::RedisServer;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn of_three_instances_one_writes_each_report() {
        let (server, reports) = (RedisServer::start(), Reports::default());
        let mut schedulers = Vec::new();
        for locks in instances(&server.url(), 3).await.unwrap() {
            schedulers.push(schedule(&locks, &reports).await.unwrap());
        }
        eventually("three reports are written", async || reports.written().len() >= 3).await;
        for mut scheduler in schedulers {
            scheduler.shutdown().await.unwrap();
        }
        let written = reports.written();
        assert!(written.values().all(|times| *times == 1), "{written:?}");
    }
}
