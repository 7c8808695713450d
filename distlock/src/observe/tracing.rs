//! Writes events for programs that collect them with `tracing`. Labels have few values; full keys appear at debug
//! level only.

use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing::{debug, error, info, warn};

use super::notice::Severity;
use super::words::KindOfLock;
use super::{Behind, Event, LeaderStep, Lock, Observer, ReleaseOutcome, words};
use crate::outage::{LinkChange, LinkStart, OutageIs};
use crate::protocol::{EarlierCommands, Notifications};

/// Writes events to the program's subscriber.
#[derive(Debug)]
pub(super) struct Tracing;

impl Observer for Tracing {
    /// Not without a subscriber.
    fn wants_events(&self) -> bool {
        LevelFilter::current() != LevelFilter::OFF
    }

    fn event(&self, event: &Event<'_>) {
        match *event {
            Event::Requested { label, kind, keys } => {
                debug!(target: "distlock", label = &**label, kind = %KindOfLock(kind), keys, "requested");
            }
            Event::Queued { label, key, kind, waiting, behind } => {
                let here = behind == Behind::ThisProcess;
                debug!(target: "distlock", label = &**label, key = &**key, kind = %KindOfLock(kind), waiting, here, "queued");
            }
            Event::Acquired { lock: Lock { label, key, kind, token, fenced }, how, waited } => {
                debug!(target: "distlock", label = &**label, key = &**key, kind = %KindOfLock(kind), token, fenced, ?how, waited_ms = millis(waited), "acquired");
            }
            Event::NotAcquired { label, error, waited, .. } => {
                if error.is_busy() {
                    debug!(target: "distlock", label = &**label, waited_ms = millis(waited), "busy");
                } else {
                    warn!(target: "distlock", label = &**label, kind = words::kind(error), waited_ms = millis(waited), "not acquired");
                }
                debug!(target: "distlock", %error, "not acquired");
            }
            Event::Abandoned { label, waited, .. } => {
                debug!(target: "distlock", label = &**label, waited_ms = millis(waited), "request abandoned");
            }
            Event::LongWait { label, key, waited } => {
                warn!(target: "distlock", label = &**label, waited_ms = millis(waited), "waits for a long time");
                debug!(target: "distlock", label = &**label, key = &**key, waited_ms = millis(waited), "waits for a long time");
            }
            Event::LongHold { lock: Lock { label, key, token, .. }, held } => {
                warn!(target: "distlock", label = &**label, token, held_ms = millis(held), "is held for a long time");
                debug!(target: "distlock", label = &**label, key = &**key, token, held_ms = millis(held), "is held for a long time");
            }
            Event::NotTaken { lock: Lock { label, key, token, .. }, after } => {
                warn!(target: "distlock", label = &**label, token, after_ms = millis(after), "granted, not picked up, and released: is the request's future polled?");
                debug!(target: "distlock", label = &**label, key = &**key, token, after_ms = millis(after), "granted, not picked up, and released");
            }
            Event::Renewed { lock: Lock { label, key, token, .. }, left, remaining } => {
                debug!(target: "distlock", label = &**label, key = &**key, token, remaining_ms = millis(remaining), left_ms = millis(left), "renewed");
            }
            Event::Released { lock: Lock { label, key, token, .. }, held, outcome } => match outcome {
                ReleaseOutcome::Confirmed => {
                    debug!(target: "distlock", label = &**label, key = &**key, token, held_ms = millis(held), "released");
                }
                ReleaseOutcome::HandedOn => {
                    debug!(target: "distlock", label = &**label, key = &**key, token, held_ms = millis(held), handed_on = true, "released");
                }
                ReleaseOutcome::Dropped => {
                    debug!(target: "distlock", label = &**label, key = &**key, token, held_ms = millis(held), awaited = false, "released");
                }
                ReleaseOutcome::Unconfirmed(error) => {
                    warn!(target: "distlock", label = &**label, "released, unconfirmed");
                    debug!(target: "distlock", key = &**key, token, held_ms = millis(held), %error, "released, unconfirmed");
                }
                ReleaseOutcome::AfterLoss => {
                    debug!(target: "distlock", label = &**label, key = &**key, token, held_ms = millis(held), "ended after a loss");
                }
                ReleaseOutcome::Nested => {
                    debug!(target: "distlock", label = &**label, key = &**key, token, held_ms = millis(held), "left, and still held by the outer section");
                }
            },
            Event::Lost { lock: Lock { label, key, token, .. }, reason, held } => {
                warn!(target: "distlock", label = &**label, %reason, "lost");
                debug!(target: "distlock", key = &**key, token, held_ms = millis(held), %reason, "lost");
            }
            Event::Deadlock { deadlock } => {
                warn!(target: "distlock", members = deadlock.members().len(), %deadlock, "deadlock");
            }
            Event::Leader { label, key, step } => leader(label, key, step),
            Event::Link { store, change } => link(store, change),
            Event::Failed { defect } => error!(target: "distlock", defect, "every lock is lost"),
            Event::LiteralPlaceholder { label, name } => warn!(
                target: "distlock",
                label,
                "`<{name}>` in the key is text, the same for every call: only a literal in the attribute is a template; write \
                 it there, or put the value into the expression"
            ),
            Event::Notice { notice } => match notice.severity() {
                Severity::Warning => warn!(target: "distlock", "{notice}"),
                Severity::Detail => debug!(target: "distlock", "{notice}"),
            },
        }
    }
}

fn leader(label: &str, key: &str, step: LeaderStep) {
    match step {
        LeaderStep::Stands => debug!(target: "distlock", label, key, "is a candidate"),
        LeaderStep::TermBegins { term } => info!(target: "distlock", label, term, "leads"),
        LeaderStep::TermEnds { term, led, lost: None } => {
            info!(target: "distlock", label, term, led_ms = millis(led), "has resigned");
        }
        // The loss itself is a warning.
        LeaderStep::TermEnds { term, led, lost: Some(reason) } => {
            info!(target: "distlock", label, term, led_ms = millis(led), %reason, "no longer leads");
        }
    }
}

fn link(store: &str, change: LinkChange<'_>) {
    match change {
        LinkChange::Up { start: LinkStart::Again(outage), earlier, .. } => {
            info!(target: "distlock", %store, outage_ms = millis(outage), settled = (earlier == EarlierCommands::Ended), "connected again");
        }
        LinkChange::Up { start: LinkStart::AtLast(outage), .. } => {
            info!(target: "distlock", %store, outage_ms = millis(outage), "connected at last");
        }
        LinkChange::Up { start: LinkStart::AtOnce, earlier, .. } => {
            debug!(target: "distlock", %store, settled = (earlier == EarlierCommands::Ended), "connected");
        }
        LinkChange::Down { outage: OutageIs::New, cause } => {
            warn!(target: "distlock", %store, %cause, "not connected");
        }
        LinkChange::Down { outage: OutageIs::Known, cause } => {
            debug!(target: "distlock", %store, %cause, "still not connected");
        }
        LinkChange::Notifications(pushes) => {
            debug!(target: "distlock", %store, on = (pushes == Notifications::On), "pushes");
        }
    }
}

/// As a number, so that a layer can add it up. To the microsecond.
fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}
