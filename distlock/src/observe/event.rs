//! What happens in a manager, in numbers and enums.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{LockError, LostReason};
use crate::lease_cell::{How, LeaseCell};
use crate::outage::LinkChange;
use crate::protocol::{LockKind, StoreError};

/// Something that has happened.
///
/// What an observer may count on, within one process:
/// - Each `Requested` is followed by exactly one of: `Acquired` (one for each of the request's keys),
///   `NotAcquired`, `Abandoned`.
/// - Each `Acquired` is followed by exactly one `Released`, when nobody has the lock in hand any more. If the lock was
///   lost before, exactly one `Lost` is reported too. A lock that was granted and given back before its request ended
///   is reported by none of the three. A lock that is entered again (`How::Nested`) has an `Acquired` and a `Released`
///   of its own; its loss is the outer section's.
/// - Each `TermBegins` of a leader is followed by exactly one `TermEnds`.
/// - Events that two threads cause at the same moment may arrive in either order: a `Lost`, which the manager's thread
///   reports, may arrive after the `Released` of a holder that lets go just then.
///
/// Labels have few values (they may become the labels of a metric); keys may be personal data. Both are as their owner
/// has them, so that an observer may keep them without a copy.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(all(feature = "tracing", feature = "metrics")),
    allow(dead_code, reason = "not all observers are here")
)]
pub(crate) enum Event<'a> {
    /// Somebody asks for a lock, or for several at once. A request that is tried again and again is one.
    Requested { label: &'a Cow<'static, str>, kind: LockKind, keys: usize },
    /// A wait has begun. `waiting` requests of this process wait for the key now.
    Queued { label: &'a Cow<'static, str>, key: &'a Arc<str>, kind: LockKind, waiting: usize, behind: Behind },
    /// A request has its lock in hand. `waited` is the time since it began, for all of its keys together.
    Acquired { lock: Lock<'a>, how: How, waited: Duration },
    /// A request has ended without a lock.
    NotAcquired { label: &'a Cow<'static, str>, error: &'a LockError, keys: usize, waited: Duration },
    /// The future of a request was dropped before it had ended.
    Abandoned { label: &'a Cow<'static, str>, keys: usize, waited: Duration },
    /// A request has waited for longer than its `warn_wait`; again after twice that time, and so on. The first of its
    /// keys.
    LongWait { label: &'a Cow<'static, str>, key: &'a Arc<str>, waited: Duration },
    /// A lock has been in hand for longer than its `warn_hold`; again after twice that time, and so on.
    LongHold { lock: Lock<'a>, held: Duration },
    /// A lock was granted to a request that was not polled `after` so long: its lease has ended, and it was given back.
    /// The request has not ended.
    NotTaken { lock: Lock<'a>, after: Duration },
    /// The store has confirmed that the lease goes on, for `remaining` from now on at least; when it did, `left` of the
    /// lease was left. Of readers that share it, for one of them.
    Renewed { lock: Lock<'a>, left: Duration, remaining: Duration },
    /// Nobody has the lock in hand any more.
    Released { lock: Lock<'a>, held: Duration, outcome: ReleaseOutcome<'a> },
    /// The lock is not held any more, although its holder has not released it.
    Lost { lock: Lock<'a>, reason: LostReason, held: Duration },
    /// What a candidate for an office does. Rare: once when it runs, and twice for each term.
    Leader { label: &'a Cow<'static, str>, key: &'a Arc<str>, step: LeaderStep },
    /// The link to the store has changed, or has not been made once more.
    Link { store: &'a str, change: LinkChange<'a> },
    /// The manager is of no use any more: every lock is lost.
    Failed { defect: &'a str },
    /// The key of an expression has the placeholder of an argument in it, as text. Once for each annotated function.
    LiteralPlaceholder { label: &'a str, name: &'a str },
    /// The Redis store has noticed something on the manager's own thread: see [`notice`](super::notice()).
    Notice { notice: super::notice::Notice<'a> },
}

/// Which lock. The token is new for every lease; readers of one process may share a lease.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(all(feature = "tracing", feature = "metrics")),
    allow(dead_code, reason = "not all observers are here")
)]
pub(crate) struct Lock<'a> {
    pub(crate) label: &'a Cow<'static, str>,
    pub(crate) key: &'a Arc<str>,
    pub(crate) kind: LockKind,
    pub(crate) token: u64,
    pub(crate) fenced: bool,
}

impl<'a> Lock<'a> {
    pub(crate) fn of(cell: &'a LeaseCell) -> Self {
        let (label, key) = (&cell.label, &cell.key);
        Lock { label, key, kind: cell.kind, token: cell.token.number(), fenced: cell.fence.is_some() }
    }
}

/// A step of a candidate for an office.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(feature = "tracing", feature = "metrics")),
    allow(dead_code, reason = "not all observers are here")
)]
pub(crate) enum LeaderStep {
    /// It stands for the office from now on.
    Stands,
    /// It leads.
    TermBegins { term: u64 },
    /// It does not lead any more. `lost`: why, if it has not resigned.
    TermEnds { term: u64, led: Duration, lost: Option<LostReason> },
}

/// For whom a request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(feature = "tracing", feature = "metrics")),
    allow(dead_code, reason = "not all observers are here")
)]
pub(crate) enum Behind {
    /// The store has said that somebody else holds the key, and this process stands in its queue now, or polls. Once
    /// for each attempt of the process, in which its requests share; the label is that of the first of them.
    AnotherProcess,
    /// Another request of this process, which holds the lock or asks for it already. Once for each request; of
    /// several keys that it asks for together, the first.
    ThisProcess,
}

/// What is known of a release when it is reported.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(all(feature = "tracing", feature = "metrics")),
    allow(dead_code, reason = "not all observers are here")
)]
pub(crate) enum ReleaseOutcome<'a> {
    /// The store has confirmed it.
    Confirmed,
    /// The lease goes on: another holder in this process has it, or shares it, or it was handed over.
    HandedOn,
    /// The store has not confirmed it. It is repeated in the background.
    Unconfirmed(&'a StoreError),
    /// The lock had been lost before.
    AfterLoss,
    /// It is under way, and nobody awaits the store's answer.
    Dropped,
    /// The outer section, which this one had entered again, holds the lock still.
    Nested,
}
