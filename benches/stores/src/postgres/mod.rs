//! PostgreSQL, and what is written with its client.

mod contenders;
mod server;

pub(crate) use contenders::{LeaseRow, Prototype};
pub(crate) use server::PostgresOnDisk;
