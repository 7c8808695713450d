//! Writes events for programs that collect them with `tracing`. Labels have few values; full keys appear at debug
//! level only.

use tracing::{debug, error, info, warn};

#[cfg(feature = "redis")]
use super::notice::Severity;
use super::{Event, Lock, Observer, ReleaseOutcome};
use crate::error::LockError;
use crate::outage::{LinkChange, LinkStart, OutageIs};
use crate::protocol::Pushes;

/// Writes events to the program's subscriber.
#[derive(Debug)]
pub(super) struct Tracing;

impl Observer for Tracing {
    fn event(&self, event: &Event<'_>) {
        match *event {
            Event::Requested { label, kind, keys } => {
                debug!(target: "distlock", label, %kind, keys, "requested");
            }
            Event::Queued { label, key, kind, waiting } => {
                debug!(target: "distlock", label, key, %kind, waiting, "queued");
            }
            Event::Acquired { lock: Lock { label, key, kind, token, fenced }, how, waited } => {
                debug!(target: "distlock", label, key, %kind, token, fenced, ?how, ?waited, "acquired");
            }
            Event::NotAcquired { label, error, waited } => {
                if error.is_busy() {
                    debug!(target: "distlock", label, ?waited, "busy");
                } else {
                    warn!(target: "distlock", label, kind = kind(error), ?waited, "not acquired");
                }
                debug!(target: "distlock", %error, "not acquired");
            }
            Event::Abandoned { label, waited } => {
                debug!(target: "distlock", label, ?waited, "request abandoned");
            }
            Event::Renewed { lock: Lock { label, key, token, .. }, remaining } => {
                debug!(target: "distlock", label, key, token, ?remaining, "renewed");
            }
            Event::Released { lock: Lock { label, key, token, .. }, held, outcome } => match outcome {
                ReleaseOutcome::Confirmed => {
                    debug!(target: "distlock", label, key, token, ?held, "released");
                }
                ReleaseOutcome::HandedOn => {
                    debug!(target: "distlock", label, key, token, ?held, handed_on = true, "released");
                }
                ReleaseOutcome::Dropped => {
                    debug!(target: "distlock", label, key, token, ?held, awaited = false, "released");
                }
                ReleaseOutcome::Unconfirmed(error) => {
                    warn!(target: "distlock", label, "released, unconfirmed");
                    debug!(target: "distlock", key, token, ?held, %error, "released, unconfirmed");
                }
                ReleaseOutcome::AfterLoss => {
                    debug!(target: "distlock", label, key, token, ?held, "given up after a loss");
                }
                ReleaseOutcome::Nested => {
                    debug!(target: "distlock", label, key, token, ?held, "left, and held by the outer section");
                }
            },
            Event::Lost { lock: Lock { label, key, token, .. }, reason, held } => {
                warn!(target: "distlock", label, %reason, "lost");
                debug!(target: "distlock", key, token, ?held, %reason, "lost");
            }
            Event::Link { store, change } => link(store, change),
            Event::Failed { defect } => error!(target: "distlock", defect, "every lock is lost"),
            #[cfg(feature = "redis")]
            Event::Notice { notice } => match notice.severity() {
                Severity::Warning => warn!(target: "distlock", "{notice}"),
                Severity::Detail => debug!(target: "distlock", "{notice}"),
            },
        }
    }
}

fn link(server: &str, change: LinkChange<'_>) {
    match change {
        LinkChange::Up { start: LinkStart::Again(outage), former_links_dead, .. } => {
            info!(target: "distlock", %server, ?outage, settled = former_links_dead, "connected again");
        }
        LinkChange::Up { start: LinkStart::AtLast(outage), .. } => {
            info!(target: "distlock", %server, ?outage, "connected at last");
        }
        LinkChange::Up { start: LinkStart::AtOnce, former_links_dead, .. } => {
            debug!(target: "distlock", %server, settled = former_links_dead, "connected");
        }
        LinkChange::Down { outage: OutageIs::New, cause } => {
            warn!(target: "distlock", %server, %cause, "not connected");
        }
        LinkChange::Down { outage: OutageIs::Known, cause } => {
            debug!(target: "distlock", %server, %cause, "still not connected");
        }
        LinkChange::Pushes(pushes) => {
            debug!(target: "distlock", %server, on = (pushes == Pushes::On), "pushes");
        }
    }
}

fn kind(error: &LockError) -> &'static str {
    match error {
        LockError::Busy { .. } => "busy",
        LockError::Lost { .. } => "lost",
        LockError::Unavailable { .. } => "unavailable",
        LockError::WrongKind { .. } => "wrong kind",
        LockError::WouldDeadlock { .. } => "would deadlock",
        LockError::InvalidKey { .. } => "invalid key",
        LockError::InvalidOptions { .. } => "invalid options",
        LockError::NotInitialized => "not initialized",
        LockError::Closed => "closed",
    }
}
