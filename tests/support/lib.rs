//! Support for the tests: real servers, a link that can be broken, other processes, and a judge.
//!
//! - [`Backend`] and [`suite!`]: the backends of one suite.
//! - [`RedisServer`], [`SentinelGroup`], [`ClusterServers`], [`QuorumServers`], [`EtcdServers`], [`PostgresServer`],
//!   [`ZooKeeperServers`]: servers as separate processes. [`Proxy`]: a link in front of a server that can be broken.
//!   All of them come from `distlock_fixtures`.
//! - [`Ensemble`]: the common part of stores whose members agree by a majority.
//! - [`LockClient`]: another process that acquires locks, controlled line by line. It can be killed and stopped.
//! - [`Plan`]: very many locks of very many clients.
//! - [`History`]: the judge. Holders that exclude each other must never believe at the same time that they hold the
//!   lock, and tokens must rise.
//! - [`FencedRegister`]: a store that refuses writes with an old fencing token.
//! - [`Tally`]: a counter that loses updates without mutual exclusion. [`residue`]: the keys that a test has left.
//!
//! Nothing here sleeps to synchronise: [`eventually`] polls a condition with a generous bound.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc)]

/// The examples of the README, which are compiled like all other examples.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The examples of the book.
#[cfg(doctest)]
mod book;

mod backend;
mod crowd;
mod ensemble;
mod fenced_register;
mod history;
mod lock_client;
pub mod residue;
mod shared_clock;
mod tally;
mod waiting;

pub use backend::Backend;
pub use crowd::Plan;
pub use distlock::testing::{drop_after, eventually};
pub use distlock_fixtures::{
    BOUND, ClusterServers, Direction, EtcdServers, PostgresServer, Proxy, QuorumServers, RedisServer,
    SentinelGroup, ServerOptions, ShardServers, ZooKeeperServers, eventually_blocking,
};
pub use ensemble::Ensemble;
pub use fenced_register::{FencedRegister, Write};
pub use history::{Fault, History, Kind, Line, Section};
pub use lock_client::{Event, LockClient};
pub use shared_clock::shared_clock;
pub use tally::Tally;
pub use waiting::{until_nobody_waits, until_renewed, until_waiting};
