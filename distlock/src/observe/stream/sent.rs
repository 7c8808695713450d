//! Events on their way to the readers.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::LockEvent;
use crate::deadlock::Deadlock;
use crate::error::{LockError, LostReason};
use crate::observe::{Event, Lock, ReleaseOutcome};
use crate::outage::{LinkChange, LinkStart, OutageIs};
use crate::protocol::{LockKind, Notifications};

/// An event in the channel. It shares the label and the key with the lock, and the reader copies them.
#[derive(Clone, Debug)]
pub(super) enum Sent {
    /// An event of one lock.
    Lock {
        label: Cow<'static, str>,
        key: Arc<str>,
        what: OfLock,
    },
    /// An event of a request.
    NotAcquired {
        label: Cow<'static, str>,
        error: LockError,
        waited: Duration,
    },
    Abandoned {
        label: Cow<'static, str>,
        waited: Duration,
    },
    /// An event of the link, of the manager or of several locks.
    Other(LockEvent),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum OfLock {
    Queued { kind: LockKind },
    Acquired { kind: LockKind, waited: Duration },
    LongWait { waited: Duration },
    LongHold { held: Duration },
    NotTaken { after: Duration },
    Renewed { left: Duration },
    Released { held: Duration, pending: bool },
    Lost { reason: LostReason, held: Duration },
}

impl Sent {
    /// `None`: the event is not for programs.
    pub(super) fn of(event: &Event<'_>) -> Option<Sent> {
        let lock_sent = |label: &Cow<'static, str>, key: &Arc<str>, what| {
            let (label, key) = (label.clone(), key.clone());
            Sent::Lock { label, key, what }
        };
        let of_lock = |lock: Lock<'_>, what| lock_sent(lock.label, lock.key, what);
        Some(match *event {
            // A candidate's own `watch` reports its terms.
            Event::Requested { .. } | Event::Leader { .. } | Event::LiteralPlaceholder { .. } => return None,
            Event::Notice { .. } => return None,
            Event::Queued { label, key, kind, .. } => lock_sent(label, key, OfLock::Queued { kind }),
            Event::Acquired { lock, waited, .. } => {
                of_lock(lock, OfLock::Acquired { kind: lock.kind, waited })
            }
            Event::NotAcquired { label, error, waited, .. } => {
                Sent::NotAcquired { label: label.clone(), error: error.clone(), waited }
            }
            Event::Abandoned { label, waited, .. } => Sent::Abandoned { label: label.clone(), waited },
            Event::LongWait { label, key, waited } => lock_sent(label, key, OfLock::LongWait { waited }),
            Event::LongHold { lock, held } => of_lock(lock, OfLock::LongHold { held }),
            Event::NotTaken { lock, after } => of_lock(lock, OfLock::NotTaken { after }),
            Event::Renewed { lock, left, .. } => of_lock(lock, OfLock::Renewed { left }),
            Event::Released { lock, held, outcome } => {
                let pending = matches!(outcome, ReleaseOutcome::Unconfirmed(_) | ReleaseOutcome::Dropped);
                of_lock(lock, OfLock::Released { held, pending })
            }
            Event::Lost { lock, reason, held } => of_lock(lock, OfLock::Lost { reason, held }),
            Event::Deadlock { deadlock } => {
                Sent::Other(LockEvent::Deadlock { deadlock: Deadlock::clone(deadlock) })
            }
            Event::Link { store, change } => Sent::Other(of_link(store, change)?),
            Event::Failed { defect } => Sent::Other(LockEvent::Failed { defect: defect.to_owned() }),
        })
    }
}

fn of_link(store: &str, change: LinkChange<'_>) -> Option<LockEvent> {
    let store = store.to_owned();
    Some(match change {
        LinkChange::Up { start, .. } => {
            let outage = match start {
                LinkStart::Again(outage) | LinkStart::AtLast(outage) => Some(outage),
                LinkStart::AtOnce => None,
            };
            LockEvent::Connected { store, outage }
        }
        LinkChange::Down { outage: OutageIs::New, cause } => {
            LockEvent::Disconnected { store, cause: cause.to_string() }
        }
        LinkChange::Down { outage: OutageIs::Known, .. } => return None,
        LinkChange::Notifications(pushes) => LockEvent::Pushes { store, on: pushes == Notifications::On },
    })
}

impl From<Sent> for LockEvent {
    fn from(sent: Sent) -> Self {
        match sent {
            Sent::Lock { label, key, what } => of_lock(label.into_owned(), String::from(&*key), what),
            Sent::NotAcquired { label, error, waited } => {
                LockEvent::NotAcquired { label: label.into_owned(), error, waited }
            }
            Sent::Abandoned { label, waited } => LockEvent::Abandoned { label: label.into_owned(), waited },
            Sent::Other(event) => event,
        }
    }
}

fn of_lock(label: String, key: String, what: OfLock) -> LockEvent {
    match what {
        OfLock::Queued { kind } => LockEvent::Queued { label, key, kind },
        OfLock::Acquired { kind, waited } => LockEvent::Acquired { label, key, kind, waited },
        OfLock::LongWait { waited } => LockEvent::LongWait { label, key, waited },
        OfLock::LongHold { held } => LockEvent::LongHold { label, key, held },
        OfLock::NotTaken { after } => LockEvent::NotTaken { label, key, after },
        OfLock::Renewed { left } => LockEvent::Renewed { label, key, left },
        OfLock::Released { held, pending } => LockEvent::Released { label, key, held, pending },
        OfLock::Lost { reason, held } => LockEvent::Lost { label, key, reason, held },
    }
}
