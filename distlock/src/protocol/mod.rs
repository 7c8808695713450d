//! The vocabulary that the engine and the stores share: operations, replies, failures, pushes, times.
//!
//! An operation is idempotent by its owner token, with two exceptions that the engine knows:
//! [`op::TryAcquire`] is never sent twice, and a repeated [`op::Release`] may be answered with
//! [`ReleaseReply::NotHeld`]. Operations that are sent one after the other on an unbroken link are *executed* in
//! that order. Their replies may be *noticed* in another order, because different tasks await them.
//!
//! Keys are logical here: a store adds the prefix and removes it again.
//!
//! Nothing in this module acts by itself or depends on its users.

mod account;
mod escaped;
mod failure;
#[cfg_attr(not(feature = "_remote"), allow(dead_code, reason = "there are no other clients"))]
pub(crate) mod inquiry;
mod inspection;
mod kind;
mod link;
pub(crate) mod mutant;
pub(crate) mod op;
mod pattern;
mod push;
mod reply;
pub(crate) mod server_clock;
pub(crate) mod session;
mod time;
mod token;
mod tuning;

pub(crate) use account::{Account, HoldAccount, Met, WaitAccount, Who};
pub use escaped::Escaped;
pub(crate) use escaped::Escaping;
pub(crate) use failure::{Failure, GaveUp, OpError, OwnLines, is_told, show_cause, told};
pub(crate) use inspection::{Details, Inspection, ListPage};
pub(crate) use kind::{Kind, LIMITED_MARKER, SHARED_MARKER, kind_of};
pub(crate) use link::{LATE_COMMANDS_BOUND, LinkEvent, Pushes};
pub(crate) use mutant::mutated;
pub(crate) use op::AcquireMode;
pub(crate) use pattern::{LONGEST_PATTERN, Pattern};
pub(crate) use push::{Notice, Push};
#[cfg(feature = "redis")]
pub(crate) use reply::FenceReply;
pub(crate) use reply::{
    AcquireReply, BatchReply, CurrentHolder, OpResult, ReleaseReply, Remaining, RenewReply,
};
pub(crate) use time::{ServerTime, Time, When, drift, lease_end, ttl_end};
pub(crate) use token::{
    KEPT, MARK, Token, client_of, parse_owner, parse_token, shared_token_text, token_text,
};
pub(crate) use tuning::{Clocks, Fences, LeaseEnds, PollPauses, Tuning, Wanted};
