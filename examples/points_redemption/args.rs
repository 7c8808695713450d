//! The command line.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand};
use distlock_examples::{Store, count};

/// Gifts for points, redeemed at several service instances at the same moment: compares the unguarded and the guarded
/// function
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) compare: Compare,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs the HTTP service alone
    Serve(Serve),
    /// Compares a lock alone with a lock, a fence and a stored result, where a lock alone is not enough
    Faults(Faults),
}

#[derive(Debug, Args)]
pub(crate) struct Faults {
    #[command(flatten)]
    pub(crate) store: Store,
}

#[derive(Debug, Args)]
pub(crate) struct Compare {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Service instances in this process
    #[arg(long, default_value = "4", value_parser = count())]
    pub(crate) instances: usize,
    /// Service instances as processes of their own; needs a --url that they can share
    #[arg(long, conflicts_with = "instances", value_parser = count())]
    pub(crate) processes: Option<usize>,
    /// Concurrent redemptions
    #[arg(long, default_value = "200", value_parser = count())]
    pub(crate) requests: usize,
    /// Points on the account; a gift costs 100
    #[arg(long, default_value = "500", allow_negative_numbers = true)]
    pub(crate) points: i64,
    /// Keep the SQLite file here (a temporary one, if it is not given)
    #[arg(long, value_name = "PATH")]
    pub(crate) database: Option<PathBuf>,
    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

impl Compare {
    /// How many service instances there are.
    pub(crate) fn count(&self) -> usize {
        self.processes.unwrap_or(self.instances)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:3000", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// The SQLite file
    #[arg(long, default_value = "points.db", value_name = "PATH")]
    pub(crate) database: PathBuf,
    /// Stop when standard input ends
    #[arg(long)]
    pub(crate) until_eof: bool,
}

pub(crate) fn is_memory(url: &str) -> bool {
    url.starts_with("memory:")
}
