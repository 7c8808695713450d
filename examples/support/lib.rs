//! What the examples share: the command line, the table, and the service instances. The functions to copy are in the
//! examples themselves, so that each of them reads on its own.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod run;
mod table;

pub use args::Args;
pub use run::{AnyError, Comparison, instances, run};
pub use table::Table;
