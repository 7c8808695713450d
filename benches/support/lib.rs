//! Support for the benches: servers, the contenders behind one trait, workers, clocks, counters and tables.
//!
//! The figures of one run are compared with each other, never with those of another run: on a busy machine
//! only the ratios mean something.

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

/// Whatever goes wrong ends the bench.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Unwraps what a task returned.
///
/// # Errors
/// The task's own, or that it panicked.
pub async fn join<T>(task: tokio::task::JoinHandle<Result<T>>) -> Result<T> {
    task.await?
}
