//! The events of a manager, in numbers and enums.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::deadlock::Deadlock;
use crate::error::{LockError, LostReason};
use crate::lease_cell::{How, LeaseCell};
use crate::outage::LinkChange;
use crate::protocol::{LockKind, StoreError};

/// Something that has happened.
///
/// An observer can rely on these rules within one process:
/// - Each `Requested` is followed by exactly one of: `Acquired` (one for each of the request's keys),
///   `NotAcquired`, `Abandoned`.
/// - Each `Acquired` is followed by exactly one `Released`, when the last handle to the lock is gone. If the lock was
///   lost before, exactly one `Lost` is reported, too. A lock that was granted and released before its request ended is
///   reported by none of the three. A lock that is entered again (`How::Nested`) has its own `Acquired` and `Released`.
///   Its loss is reported by the outer section.
/// - Each `TermBegins` of a leader is followed by exactly one `TermEnds`.
/// - Events that two threads cause at the same moment may arrive in either order: a `Lost`, which the manager's thread
///   reports, may arrive after the `Released` of a holder that lets go just then.
///
/// Labels have few values (they may become the labels of a metric). Keys may be personal data. Both are shared with
/// their owner, so that an observer can keep them without a copy.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(all(feature = "tracing", feature = "metrics")),
    allow(dead_code, reason = "not all observers are here")
)]
pub(crate) enum Event<'a> {
    /// A caller requests a lock, or several locks at once. A request that is retried counts once.
    Requested { label: &'a Cow<'static, str>, kind: LockKind, keys: usize },
    /// A wait has begun. `waiting` requests of this process wait for the key now.
    Queued { label: &'a Cow<'static, str>, key: &'a Arc<str>, kind: LockKind, waiting: usize, behind: Behind },
    /// A request has acquired its lock. `waited` is the time since it began, for all of its keys together.
    Acquired { lock: Lock<'a>, how: How, waited: Duration },
    /// A request has ended without a lock.
    NotAcquired { label: &'a Cow<'static, str>, error: &'a LockError, keys: usize, waited: Duration },
    /// The future of a request was dropped before it had ended.
    Abandoned { label: &'a Cow<'static, str>, keys: usize, waited: Duration },
    /// A request has waited for longer than its `warn_wait`; again after twice that time, and so on. The first of its
    /// keys.
    LongWait { label: &'a Cow<'static, str>, key: &'a Arc<str>, waited: Duration },
    /// A lock has been in use for longer than its `warn_hold`; again after twice that time, and so on.
    LongHold { lock: Lock<'a>, held: Duration },
    /// A lock was granted to a request that was not polled for the time `after`. Its lease has ended, and it was
    /// released. The request has not ended.
    NotTaken { lock: Lock<'a>, after: Duration },
    /// The store has confirmed a renewal. The lease lasts at least `remaining` from now on. At the confirmation, `left`
    /// of the old lease was left. If readers share the lease, it is reported for one of them.
    Renewed { lock: Lock<'a>, left: Duration, remaining: Duration },
    /// The last handle to the lock is gone.
    Released { lock: Lock<'a>, held: Duration, outcome: ReleaseOutcome<'a> },
    /// The lock is no longer held, although its holder has not released it.
    Lost { lock: Lock<'a>, reason: LostReason, held: Duration },
    /// A step of a candidate for an office. Rare: once when it runs, and twice for each term.
    Leader { label: &'a Cow<'static, str>, key: &'a Arc<str>, step: LeaderStep },
    /// Holders wait for each other, and a request of this process is among them. Once for each deadlock.
    Deadlock { deadlock: &'a Arc<Deadlock> },
    /// The link to the store has changed, or another attempt to connect has failed.
    Link { store: &'a str, change: LinkChange<'a> },
    /// The manager has failed: every lock is lost.
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
    /// It campaigns for the office from now on.
    Stands,
    /// It leads.
    TermBegins { term: u64 },
    /// The candidate no longer leads. `lost`: the reason, if it has not resigned.
    TermEnds { term: u64, led: Duration, lost: Option<LostReason> },
}

/// The holder that a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(feature = "tracing", feature = "metrics")),
    allow(dead_code, reason = "not all observers are here")
)]
pub(crate) enum Behind {
    /// The store has replied that another holder has the key, and this process now waits in its queue, or polls. Once
    /// for each attempt of the process, which its requests share. The label is the label of the first request.
    AnotherProcess,
    /// Another request of this process holds the lock or waits for it already. Once for each request. For several keys,
    /// the first one.
    ThisProcess,
}

/// What is known about a release when it is reported.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(all(feature = "tracing", feature = "metrics")),
    allow(dead_code, reason = "not all observers are here")
)]
pub(crate) enum ReleaseOutcome<'a> {
    /// The store has confirmed it.
    Confirmed,
    /// The lease continues: another holder in this process has it, or shares it, or it was handed over.
    HandedOn,
    /// The store has not confirmed it. It is retried in the background.
    Unconfirmed(&'a StoreError),
    /// The lock had been lost before.
    AfterLoss,
    /// It is pending, and no caller awaits the store's reply.
    Dropped,
    /// The outer section still holds the lock.
    Nested,
}
