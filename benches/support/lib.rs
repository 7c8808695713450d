//! Support for the benches: servers, the contenders behind one trait, workers, clocks, counters and tables.
//!
//! Compare only figures of the same run. On a busy machine, only the ratios are meaningful.

pub mod clock;
pub mod cluster;
pub mod contenders;
pub mod cores;
pub mod counting;
pub mod floor;
pub mod options;
pub mod processes;
pub mod results;
pub mod rounds;
pub mod sections;
pub mod server;
pub mod stats;
pub mod table;
pub mod worker;

/// Every error ends the bench.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Returns the result of a task.
///
/// # Errors
/// The error of the task, or its panic.
pub async fn join<T>(task: tokio::task::JoinHandle<Result<T>>) -> Result<T> {
    task.await?
}
