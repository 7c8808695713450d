//! Locks on a Redis or Valkey server.
//!
//! There are two connections: one for commands, pipelined and shared by all callers, and one that only listens for
//! grants. [`Backend::run`](super::Backend::run) maintains both on the I/O thread, and replaces them when they break.
//! Operations are sent from the caller's own thread. When a connection is dropped, all its operations in progress fail,
//! so that none hangs.
//!
//! The scripts for the server are in `scripts/`. Each file states its contract.

mod address;
mod cluster;
mod command;
mod config;
mod connection;
mod diagnosis;
mod dial;
mod endpoint;
mod errors;
mod exec;
mod first_reply;
mod handshake;
mod idle_gate;
mod info;
mod link;
mod listing;
mod login;
mod membership;
mod names;
mod operation;
mod probe_interval;
mod push;
mod registered;
mod replicas;
mod reply;
mod scripts;
mod sentinel;
mod sentinel_events;
mod slot_channels;
mod slots;
mod spare;
mod standalone;
mod stream;
mod supervisor;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;
mod url;

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;

#[cfg(test)]
mod acquire_all_tests;
#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod connect_tests;
#[cfg(test)]
mod connection_tests;
#[cfg(test)]
mod growth_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod prefix_tests;
#[cfg(test)]
mod push_tests;
#[cfg(test)]
mod recording;
#[cfg(test)]
mod replicas_tests;
#[cfg(test)]
mod sentinel_tests;
#[cfg(test)]
mod shard_tests;
#[cfg(test)]
mod test_cluster;
#[cfg(test)]
mod test_operations;
#[cfg(test)]
mod test_scripted;
#[cfg(test)]
mod test_sentinels;
#[cfg(test)]
pub(super) mod test_server;
#[cfg(test)]
mod test_tls_files;
#[cfg(test)]
mod tests;
#[cfg(test)]
#[cfg(feature = "tls")]
mod tls_tests;

pub(crate) use cluster::ClusterBackend;
pub(crate) use config::RedisConfig;
pub(crate) use connection::this_runtime_has_io;
pub(crate) use listing::{ScanResult, Search};
pub(crate) use membership::{Mark, Origin, ServerNote};
pub(crate) use operation::{Encode, Encoding, Operation};
pub(crate) use reply::Garbled;
pub(crate) use standalone::RedisBackend;
pub(crate) use url::is_quorum;
