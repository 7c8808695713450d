//! Support for the tests: real servers, a link that can be broken, other processes, and a judge.
//!
//! - [`Backend`] and [`suite!`]: what one suite runs on.
//! - [`RedisServer`]: a `redis-server` process of its own on a free loopback port, gone when dropped.
//! - [`SentinelGroup`], [`ClusterServers`], [`QuorumServers`]: several of them, as they are run in earnest.
//! - [`PostgresServer`]: a PostgreSQL server of its own, in the same way.
//! - [`PgBouncer`]: a pooler in front of one.
//! - [`Proxy`]: a TCP link in front of a server that delays, loses, holds and cuts.
//! - [`LockClient`]: another process that takes locks, driven line by line; it can be killed and stopped.
//! - [`History`]: the judge: no two overlapping holders that both believe they hold and exclude each other by their
//!   kinds, tokens increasing.
//! - [`FencedRegister`]: a store that refuses writes with an old fencing token.
//! - [`Tally`]: a counter that loses updates unless somebody excludes; [`residue`]: what a test left behind.
//!
//! Nothing here sleeps to synchronise: [`eventually`] polls a condition with a generous bound.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc)]

/// The examples of the README, which are compiled like all the others.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

mod backend;
mod cluster_servers;
mod drop_after;
mod eventually;
mod fenced_register;
mod history;
mod keeper;
mod lock_client;
mod outside;
mod pgbouncer;
mod postgres_server;
mod process;
mod proxy;
mod quorum_servers;
mod redis_server;
pub mod residue;
mod sentinel_group;
mod server_options;
mod stepped_clock;
mod tally;
mod waiting;

pub use backend::Backend;
pub use cluster_servers::ClusterServers;
pub use drop_after::drop_after;
pub use eventually::{BOUND, eventually, eventually_blocking};
pub use fenced_register::{FencedRegister, Write};
pub use history::{Fault, History, Kind, Line, Section};
pub use lock_client::{Event, LockClient};
pub use pgbouncer::PgBouncer;
pub use postgres_server::PostgresServer;
pub use process::shared_clock;
pub use proxy::{Direction, Proxy};
pub use quorum_servers::QuorumServers;
pub use redis_server::RedisServer;
pub use sentinel_group::SentinelGroup;
pub use server_options::ServerOptions;
pub use tally::Tally;
pub use waiting::{until_nobody_waits, until_waiting};
