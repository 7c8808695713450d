//! Support for the tests: real servers, a link that can be broken, other processes, and a judge.
//!
//! - [`Backend`] and [`suite!`]: what one suite runs on.
//! - [`RedisServer`]: a `redis-server` process of its own on a free loopback port, gone when dropped.
//! - [`Proxy`]: a TCP link in front of a server that delays, loses, holds and cuts.
//! - [`LockClient`]: another process that takes locks, driven line by line; it can be killed and stopped.
//! - [`History`]: the judge: no two overlapping holders that both believe they hold and exclude each other by their
//!   kinds, tokens increasing.
//! - [`Tally`]: a counter that loses updates unless somebody excludes; [`residue`]: what a test left behind.
//!
//! Nothing here sleeps to synchronise: [`eventually`] polls a condition with a generous bound.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc)]

/// The examples of the README, which are compiled like all the others.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

mod backend;
mod drop_after;
mod eventually;
mod history;
mod lock_client;
mod outside;
mod process;
mod proxy;
mod redis_server;
pub mod residue;
mod server_options;
mod tally;
mod waiting;

pub use backend::Backend;
pub use drop_after::drop_after;
pub use eventually::{BOUND, eventually, eventually_blocking};
pub use history::{Fault, History, Kind, Line, Section};
pub use lock_client::{Event, LockClient};
pub use process::shared_clock;
pub use proxy::{Direction, Proxy};
pub use redis_server::RedisServer;
pub use server_options::ServerOptions;
pub use tally::Tally;
pub use waiting::{until_nobody_waits, until_waiting};
