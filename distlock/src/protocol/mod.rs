//! The vocabulary that the engine and the stores share: operations, replies, failures, pushes, times.
//!
//! An operation is idempotent by its owner token, with two exceptions that the engine knows:
//! [`op::TryAcquire`] is never sent twice, and a repeated [`op::Release`] may be answered with
//! [`ReleaseReply::NotHeld`]. Operations that are sent one after the other on an unbroken link are *executed* in
//! that order. Their replies may be *noticed* in another order, because different tasks await them.
//!
//! Keys are logical here: a store adds the prefix and removes it again.
//!
//! Nothing in this module acts on its own or depends on its users.

mod account;
mod failure;
mod kind;
mod link;
mod list_page;
pub(crate) mod mutant;
pub(crate) mod op;
mod pattern;
mod push;
pub(crate) mod records;
mod reply;
pub(crate) mod session;
mod time;
mod tuning;
mod waits;

pub(crate) use account::{Account, HoldAccount, WaitAccount};
pub(crate) use distlock_store::engine::{
    Escaping, Failure, GaveUp, LIMITED_MARKER, MARK, Met, ServerTime, Time, Token, Who, client_of, drift,
    parse_owner, parse_token, shared_token_text, show_cause, token_text, with_token_text,
};
pub(crate) use distlock_store::{
    EarlierCommands, KEPT, LATE_COMMANDS, LockKind, Notifications, OwnerDetails, StoreError, StoredLock,
};
pub(crate) use failure::may_be_applied;
pub(crate) use kind::{SHARED_MARKER, kind_of};
pub(crate) use link::LinkEvent;
pub(crate) use list_page::{ListPage, StoredLocks};
pub(crate) use mutant::mutated;
pub(crate) use op::AcquireMode;
pub(crate) use pattern::{LONGEST_PATTERN, Pattern};
pub(crate) use push::{Push, PushHint};
pub(crate) use reply::FenceReply;
pub(crate) use reply::{
    AcquireReply, BatchReply, CurrentHolder, OpResult, ReleaseReply, Remaining, RenewReply,
};
pub(crate) use time::{When, lease_end, ttl_end};
pub(crate) use tuning::{Clocks, Fences, LeaseEnds, PollPauses, Tuning, Wanted};
pub(crate) use waits::{WaitRecord, value_of, waits_of, with_waits};
