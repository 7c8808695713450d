//! Several servers under load and faults, with one file for each fault.
//!
//! Each test prints a row of the table in `docs/faults.md`. If the servers keep confirmed writes, no two holders
//! overlap. If a fail-over may lose writes, overlaps are counted, and the fencing tokens keep the order.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cluster_link_half_open;
mod cluster_primary_killed;
mod cluster_primary_stopped;
mod cluster_slot_moved;
mod ensembles;
mod load;
mod postgres_client_stopped;
mod postgres_ended;
mod postgres_killed;
mod postgres_links;
mod postgres_stopped;
mod quorum_bare_majority;
mod quorum_clock;
mod quorum_killed;
mod quorum_links_cut;
mod quorum_links_half_open;
mod quorum_restarted_empty;
mod quorum_stopped;
mod redis_clock_back;
mod redis_clock_forward;
mod redis_restarted_empty;
mod row;
mod sentinel_fail_over_by_command;
mod sentinel_link_half_open;
mod sentinel_master_killed;
mod sentinel_master_stopped;
mod sentinel_replicas_confirm;
mod sentinel_replicas_required;
mod sentinel_writes_lost;
mod shard_lost;
mod spread;
