//! The state of a machine, and queries on it. This module sends no command and completes no request.

mod account;
mod attempt;
mod door;
mod env;
mod few;
pub(super) mod hashed;
mod hints;
mod key;
mod lease;
mod linger;
mod link;
pub(super) mod pending;
pub(super) mod releases;
pub(super) mod waiters;

pub(crate) use attempt::BatchRole;
pub(super) use attempt::{Attempt, Phase, QueuedReport};
pub(super) use door::Door;
pub(super) use env::Env;
pub(super) use few::Few;
pub(super) use key::KeyState;
pub(super) use lease::{Grant, Holder, Lease, LostLease};
pub(super) use linger::Linger;
pub(super) use pending::{LONGEST_RETRY_PAUSE, PendingRelease, PendingReleases};
pub(super) use releases::Sends;
pub(super) use waiters::{SpareQueue, Waiter};

use crate::protocol::Time;

fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    a.into_iter().chain(b).min()
}
