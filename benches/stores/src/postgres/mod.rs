//! PostgreSQL, and the code with its client.

mod advisory;
mod contenders;
mod server;

pub(crate) use advisory::Advisory;
pub(crate) use contenders::{LeaseRow, Prototype};
pub(crate) use server::PostgresOnDisk;
