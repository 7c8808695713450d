//! A rolling restart: the processes of a service are replaced one by one, as Kubernetes does it, while they work off
//! jobs one after the other. No job is lost, and none is done twice.
//!
//! ```text
//! cargo run --release --example rolling_restart -- --url redis://127.0.0.1/
//! ```
//!
//! The function to copy is `work`: at SIGTERM the manager is shut down. A section that runs is completed, a request
//! that waits fails with `LockError::Closed` at once, every release is awaited, and then the process ends.

#![allow(clippy::print_stderr)]

mod ledger;

use std::{
    path::Path,
    process::{ExitCode, Stdio},
    time::Duration,
};

use clap::Parser;
use distlock::{LockError, LockManager};
use distlock_examples::{AnyError, Comparison, count, run, table};
use tokio::{
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
};

use ledger::Ledger;

/// The processes of a service are replaced one by one while they work off jobs
#[derive(Debug, Parser)]
struct Options {
    /// Where the locks are kept; a server, because processes share it: redis://host:port/, ...
    #[arg(long)]
    url: String,
    /// Processes of the service
    #[arg(long, default_value = "3", value_parser = count())]
    processes: usize,
    /// Jobs to work off
    #[arg(long, default_value = "300", value_parser = count())]
    jobs: usize,
}

/// The environment variable that tells a process of the service its URL and its files.
const WORKER: &str = "ROLLING_RESTART_WORKER";
/// How long a process may take to end; `terminationGracePeriodSeconds` has to be longer.
const GRACE: Duration = Duration::from_secs(10);
/// A bound for every step of the example, far above what it takes.
const BOUND: Duration = Duration::from_secs(60);

/// A process of the service: works until no job is left, or until SIGTERM.
async fn work(url: &str, ledger: &Ledger, generation: usize) -> Result<(), AnyError> {
    let locks = LockManager::connect(url).await?;
    let ending = {
        let (locks, mut term) = (locks.clone(), signal(SignalKind::terminate())?);
        tokio::spawn(async move {
            term.recv().await;
            locks.shutdown(GRACE).await
        })
    };
    ledger.came(generation)?;
    let told_to_end = loop {
        let section = locks.lock("jobs").fenced().wait(BOUND).run(async |held| {
            let fence = held.fencing_token().map_or(0, |token| token.get());
            ledger.do_next(generation, fence).await
        });
        match section.await {
            Ok(done) => {
                if !done? {
                    break false;
                }
            }
            Err(LockError::Closed) => break true,
            Err(error) => return Err(error.into()),
        }
    };
    let report = if told_to_end { ending.await? } else { locks.shutdown(GRACE).await };
    match (report.lost, report.unconfirmed) {
        (0, 0) => Ok(()),
        _ => Err(format!("it has left locks behind: {report:?}").into()),
    }
}

/// Starts a process of the service.
fn start(url: &str, directory: &Path, generation: usize) -> Result<Child, AnyError> {
    let mut command = Command::new(std::env::current_exe()?);
    if cfg!(test) {
        command.args(["--exact", "tests::a_process_of_the_service", "--nocapture"]);
    }
    command.env(WORKER, format!("{generation} {url} {}", directory.display()));
    Ok(command.stdout(Stdio::null()).kill_on_drop(true).spawn()?)
}

/// Does the work of a process of the service, if this process is one.
async fn worker() -> Option<Result<(), AnyError>> {
    let told = std::env::var(WORKER).ok()?;
    let mut words = told.splitn(3, ' ');
    let generation = words.next()?.parse().ok()?;
    let (url, directory) = (words.next()?, words.next()?);
    Some(work(url, &Ledger::open(directory), generation).await)
}

/// Does what `kubectl rollout restart` does: starts a new process, and ends an old one when the new one serves.
async fn roll_out(url: &str, ledger: &Ledger, directory: &Path, count: usize) -> Result<usize, AnyError> {
    let mut old = Vec::new();
    for _ in 0..count {
        old.push(start(url, directory, 1)?);
    }
    let works = || ledger.processes(1) == count && ledger.read().done_by(1) >= 2 * count;
    until("the first generation works", works).await?;
    let (mut new, mut clean) = (Vec::new(), 0);
    for mut process in old {
        new.push(start(url, directory, 2)?);
        until("the new process is there", || ledger.processes(2) == new.len()).await?;
        let pid = process.id().ok_or("an old process has ended by itself")?;
        Command::new("kill").args(["-TERM", &pid.to_string()]).status().await?;
        clean += usize::from(tokio::time::timeout(BOUND, process.wait()).await??.success());
    }
    for mut process in new {
        clean += usize::from(tokio::time::timeout(BOUND, process.wait()).await??.success());
    }
    Ok(clean)
}

async fn until(what: &str, condition: impl Fn() -> bool) -> Result<(), AnyError> {
    let poll = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(BOUND, poll).await.map_err(|_| format!("not in time: {what}").into())
}

async fn restart(options: Options) -> Result<Comparison, AnyError> {
    let Options { url, processes, jobs } = options;
    let directory = tempfile::tempdir()?;
    let ledger = Ledger::create(directory.path(), jobs)?;
    let clean = roll_out(&url, &ledger, directory.path(), processes).await?;
    let record = ledger.read();
    let mut table = table(["", "processes", "jobs"]);
    for (name, generation) in [("old", 1), ("new", 2)] {
        let (came, done) = (ledger.processes(generation), record.done_by(generation));
        table.add_row([name.to_owned(), came.to_string(), done.to_string()]);
    }
    let (lost, repeated) = (record.lost(jobs), record.repeated());
    let kept = lost == 0 && repeated == 0 && record.is_in_order() && clean == 2 * processes;
    Ok(Comparison {
        title: format!("{processes} processes, replaced one by one while they work off {jobs} jobs"),
        table,
        verdict: format!(
            "{lost} jobs were lost, {repeated} were done twice; {clean} of {} processes ended well.",
            2 * processes
        ),
        kept,
    })
}

#[tokio::main]
async fn main() -> ExitCode {
    match worker().await {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            eprintln!("a process of the service: {error}");
            ExitCode::FAILURE
        }
        None => run(restart).await,
    }
}

#[cfg(test)]
mod tests {
    use distlock_fixtures::RedisServer;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn no_section_is_lost_or_doubled_when_every_process_is_replaced() {
        let server = RedisServer::start();
        let options = Options { url: server.url(), processes: 3, jobs: 200 };
        let outcome = restart(options).await.unwrap();
        assert!(outcome.kept, "{}\n{}", outcome.verdict, outcome.table);
    }

    /// The processes that the test above starts run this test. Without their environment variable it does nothing.
    #[tokio::test]
    async fn a_process_of_the_service() {
        if let Some(ended) = worker().await {
            ended.unwrap();
        }
    }
}
