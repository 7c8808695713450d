//! The common parts of the examples: options, the table, and the service instances. The functions to copy are in the
//! examples themselves, so that each of them reads on its own.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod run;
mod side;
mod table;

pub use args::{Store, count};
pub use run::{AnyError, Comparison, instances, run};
pub use side::Side;
pub use table::table;
