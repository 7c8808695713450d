//! From the command line to the exit status.

use std::{error::Error, process::ExitCode};

use clap::Parser;
use comfy_table::Table;
use distlock::{LockError, LockManager};

/// Any error.
pub type AnyError = Box<dyn Error + Send + Sync>;

/// The results of the unguarded function and of the guarded one.
#[derive(Debug)]
pub struct Comparison {
    /// What both functions did.
    pub title: String,
    /// One row for each function.
    pub table: Table,
    /// The conclusion, in a sentence.
    pub verdict: String,
    /// Whether the guarded function kept its rule.
    pub kept: bool,
}

/// Runs an example with the options of the command line, and prints the results. The exit status is 1 if the guarded
/// function broke its rule, and 2 if there was nothing to compare.
pub async fn run<A: Parser>(compare: impl AsyncFnOnce(A) -> Result<Comparison, AnyError>) -> ExitCode {
    match compare(A::parse()).await {
        Ok(Comparison { title, table, verdict, kept }) => {
            println!("{title}\n\n{}\n", table.trim_fmt());
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
