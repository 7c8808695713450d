//! The state machine of one process's locks: no sockets, no clock, no executor.
//!
//! Events go in (acquire, cancel, release, replies, pushes, link changes, time), effects come out (commands
//! to send, requests to complete, holds to wake). The caller passes the time in with every event and carries
//! the effects out, in their order, after the call. A [`Machine`] has a share of the keys; mutexes, the spread of
//! the keys and the alarm are the business of those who drive it.
//!
//! Per key there is at most one *attempt* of this process on the server, on behalf of the first of its
//! waiters, who stand in a local queue, first in, first out; and the *leases* it has got: one for an exclusive
//! lock, one for each holder of a limited one, one for a group of readers that came together.
//!
//! The rules and their counterexamples are those of the protocol: time first (a passed deadline is a loss
//! before anything else is looked at), deadlines from the instant before a command was sent, "mine" may
//! extend but "fresh" while holding means that the lock was lost in between, a token is never reused, and
//! every token that may have been applied without being wanted is left (`leave`) until that was answered.

mod effect;
mod machine;
mod params;
mod request;
mod rules;
#[cfg(test)]
pub(crate) mod sim;
mod state;
mod step;
#[cfg(test)]
mod tests;

pub(crate) use effect::{Confirmation, Context, Effect, Outstanding, Purpose, Queueing, Release};
pub(crate) use machine::Machine;
pub(crate) use params::{ACQUIRE_RESEND_AFTER, LOCAL_CHAIN_TIME, LONGEST_CLAIM};
pub(crate) use request::{InBatch, Outcome, Renewal, WaitLimit, Want};
