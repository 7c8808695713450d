//! From the command line to the exit status.

use std::{error::Error, process::ExitCode};

use distlock::{LockError, LockManager};

use crate::{Args, Table};

/// Whatever went wrong.
pub type AnyError = Box<dyn Error + Send + Sync>;

/// What became of the unguarded function and of the guarded one.
#[derive(Debug)]
pub struct Comparison {
    /// What was done.
    pub title: String,
    /// A row for each.
    pub table: Table,
    /// What it means, in a sentence.
    pub verdict: String,
    /// Whether the guarded function kept its rule.
    pub kept: bool,
}

/// Runs an example, prints what came of it, and makes that the exit status: 1 if the guarded function broke its rule,
/// 2 if there was nothing to compare.
pub async fn run(
    help: &str,
    names: &[&str],
    compare: impl AsyncFnOnce(Args) -> Result<Comparison, AnyError>,
) -> ExitCode {
    let asked = || std::env::args().skip(1);
    if asked().any(|arg| arg == "-h" || arg == "--help") {
        println!("{help}");
        return ExitCode::SUCCESS;
    }
    let done = match Args::parse(asked(), names) {
        Ok(args) => compare(args).await,
        Err(mistake) => Err(format!("{mistake}\n\n{help}").into()),
    };
    match done {
        Ok(Comparison { title, table, verdict, kept }) => {
            println!("{title}\n\n{table}");
            println!("{}{verdict}", if kept { "" } else { "THE LOCK FAILED. " });
            if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// The lock managers of `count` service instances: with a server each has its own, as if they were processes; in memory
/// locks live in one manager, so all have the same.
///
/// # Errors
/// Those of [`LockManager::connect`].
pub async fn instances(url: &str, count: usize) -> Result<Vec<LockManager>, LockError> {
    let mut managers = vec![LockManager::connect(url).await?];
    while managers.len() < count {
        managers.push(match url.starts_with("memory:") {
            true => managers[0].clone(),
            false => LockManager::connect(url).await?,
        });
    }
    Ok(managers)
}
