//! The words that the engine and the stores speak: operations, replies, failures, news, times.
//!
//! An operation is idempotent by its owner token, with two exceptions that the engine knows: [`Op::TryAcquire`] is
//! never sent twice, and a repeated [`Op::Release`] may answer [`Reply::NotHeld`]. Replies to operations sent
//! one after the other on an unbroken link are *executed* in the order sent; they may be *noticed* in another
//! order, because different tasks await them.
//!
//! Keys are logical here: a store puts the prefix in front and takes it off again.
//!
//! Nothing here does anything by itself, and nothing here knows who uses it.

mod failure;
mod inspection;
mod kind;
mod link;
pub(crate) mod mutant;
mod op;
mod push;
mod reply;
pub(crate) mod server_clock;
pub(crate) mod session;
mod time;
mod token;
mod tuning;

pub(crate) use failure::{Failure, OpError};
pub(crate) use inspection::Inspection;
pub(crate) use kind::{Kind, LIMITED_MARKER, SHARED_MARKER, kind_of};
pub(crate) use link::{LATE_COMMANDS_BOUND, LinkEvent, Pushes};
pub(crate) use mutant::mutated;
pub(crate) use op::{AcquireMode, Op};
pub(crate) use push::{Notice, Push};
pub(crate) use reply::{OpResult, Remaining, Reply};
pub(crate) use time::{ServerTime, Time, drift, lease_end, ttl_end};
pub(crate) use token::{MARK, Token, parse_token, token_text};
pub(crate) use tuning::{Clocks, LeaseEnds, Tuning};
