//! The state machine of one process's locks: no sockets, no clock, no executor.
//!
//! Events go in (acquire, cancel, release, replies, pushes, link changes, time). Effects come out: commands to send,
//! requests to complete, listeners to wake. The caller passes the time with every event, and executes the effects after
//! the call, in their order. A [`Machine`] has a share of the keys. Mutexes, the choice of the machine for a key, and
//! the alarm belong to the driver.
//!
//! For each key this process has at most one *attempt* on the server. It is made on behalf of the first waiter in a
//! local queue, which is first in, first out. Apart from the attempt, a key has the *leases* that the server has
//! granted to this process: one for an exclusive lock, one for each holder of a limited lock, one for a group of
//! readers that acquired together.
//!
//! The main rules of the protocol (`docs/protocol.md` has their counterexamples):
//!
//! - Time first: a deadline that has passed becomes a loss before anything else is checked.
//! - A deadline counts from the instant before the command was sent.
//! - `AlreadyHeld` may extend a lease, but `Acquired` while we hold it means that the lock was lost in
//!   between.
//! - A token is never reused.
//! - A token that may have been applied, and is not wanted, is released until a reply confirms it.

mod effect;
#[cfg(test)]
mod growth;
mod machine;
mod params;
#[cfg(test)]
pub(crate) mod record;
mod request;
mod rules;
#[cfg(test)]
pub(crate) mod sim;
mod state;
mod step;
#[cfg(test)]
mod tests;

pub(crate) use effect::{
    AcquirePurpose, Answer, Command, Confirmation, Context, Effect, EffectList, Failed, Queueing,
    ReleasePurpose, ReleaseStarted, RenewPurpose, Telling,
};
pub(crate) use machine::Machine;
pub(crate) use params::{
    ACQUIRE_RESEND_AFTER, CONTENDED_JOIN_TIME, LINGER_ENDS_EARLY, LOCAL_CHAIN_TIME, LONGEST_CLAIM,
};
pub(crate) use request::{KnownHolder, Outcome, Renewal, WaitLimit, Want};
pub(crate) use state::BatchRole;
pub(crate) use state::hashed::{KeyHash, KeyHasher};
pub(crate) use step::Step;
