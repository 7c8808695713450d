//! Events for whoever collects them. Labels have bounded cardinality; full keys appear at debug level only.

#[cfg(feature = "tracing")]
mod with_tracing {
    use std::time::Duration;

    use tracing::{Instrument, debug, error, info, info_span, warn};

    use crate::backend::{Backend, LinkEvent, OpError, Pushes};
    use crate::error::{LockError, LostReason};
    use crate::lease_cell::LeaseCell;
    use crate::outage::LinkChange;

    pub(crate) fn lost(cell: &LeaseCell, reason: LostReason) {
        warn!(target: "distlock", label = &*cell.label, %reason, "lost");
        debug!(target: "distlock", key = &*cell.key, %reason, "lost");
    }

    pub(crate) fn renewed(cell: &LeaseCell) {
        debug!(target: "distlock", label = &*cell.label, key = &*cell.key, "renewed");
    }

    pub(crate) fn link(backend: &dyn Backend, event: &LinkEvent, link_change: LinkChange) {
        let server = backend.describe();
        match event {
            LinkEvent::Up { former_links_dead, .. } => match link_change {
                LinkChange::UpAgain(outage) => {
                    info!(target: "distlock", %server, ?outage, settled = former_links_dead, "connected again");
                }
                LinkChange::UpAtLast(outage) => {
                    info!(target: "distlock", %server, ?outage, "connected at last")
                }
                _ => debug!(target: "distlock", %server, settled = former_links_dead, "connected"),
            },
            LinkEvent::Down { cause } if link_change == LinkChange::Lost => {
                warn!(target: "distlock", %server, %cause, "not connected");
            }
            LinkEvent::Down { cause } => debug!(target: "distlock", %server, %cause, "still not connected"),
            LinkEvent::Pushes(pushes) => {
                debug!(target: "distlock", %server, on = (*pushes == Pushes::On), "pushes");
            }
        }
    }

    /// A manager that is of no use any more.
    pub(crate) fn failed(defect: &str) {
        error!(target: "distlock", defect, "every lock is lost");
    }

    pub(crate) fn not_acquired(label: &str, error: &LockError) {
        if error.is_busy() {
            debug!(target: "distlock", label, "busy");
        } else {
            warn!(target: "distlock", label, kind = kind(error), "not acquired");
        }
        debug!(target: "distlock", %error, "not acquired");
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

    pub(crate) fn acquired(cell: &LeaseCell, waited: Duration) {
        debug!(target: "distlock", label = &*cell.label, key = &*cell.key, ?waited, "acquired");
    }

    pub(crate) fn released(cell: &LeaseCell, held: Duration) {
        debug!(target: "distlock", label = &*cell.label, key = &*cell.key, ?held, "released");
    }

    /// The loss has been reported.
    pub(crate) fn released_after_loss(cell: &LeaseCell, held: Duration) {
        debug!(target: "distlock", label = &*cell.label, key = &*cell.key, ?held, "given up after a loss");
    }

    /// A release of which nobody awaits the outcome, or whose outcome may not replace the body's.
    pub(crate) fn release_failed(cell: &LeaseCell, error: &OpError) {
        warn!(target: "distlock", label = &*cell.label, "released, unconfirmed");
        debug!(target: "distlock", key = &*cell.key, %error, "released, unconfirmed");
    }

    pub(crate) fn acquiring<F: Future>(label: &str, work: F) -> impl Future<Output = F::Output> {
        work.instrument(info_span!(target: "distlock", "lock.acquire", label))
    }

    /// Entered whenever the body of a section runs.
    pub(crate) use tracing::Span;

    pub(crate) fn holding(cell: &LeaseCell) -> Span {
        info_span!(target: "distlock", "lock.hold", label = &*cell.label)
    }
}

#[cfg(feature = "tracing")]
pub(crate) use with_tracing::*;

#[cfg(not(feature = "tracing"))]
mod without_tracing {
    use std::time::Duration;

    use crate::backend::{Backend, LinkEvent, OpError};
    use crate::error::{LockError, LostReason};
    use crate::lease_cell::LeaseCell;
    use crate::outage::LinkChange;

    pub(crate) fn lost(_: &LeaseCell, _: LostReason) {}
    pub(crate) fn renewed(_: &LeaseCell) {}
    pub(crate) fn link(_: &dyn Backend, _: &LinkEvent, _: LinkChange) {}
    pub(crate) fn failed(_: &str) {}
    pub(crate) fn not_acquired(_: &str, _: &LockError) {}
    pub(crate) fn acquired(_: &LeaseCell, _: Duration) {}
    pub(crate) fn released(_: &LeaseCell, _: Duration) {}
    pub(crate) fn released_after_loss(_: &LeaseCell, _: Duration) {}
    pub(crate) fn release_failed(_: &LeaseCell, _: &OpError) {}

    pub(crate) fn acquiring<F: Future>(_: &str, work: F) -> F {
        work
    }

    /// Entered whenever the body of a section runs.
    #[derive(Debug)]
    pub(crate) struct Span;

    impl Span {
        pub(crate) fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
            work()
        }
    }

    pub(crate) fn holding(_: &LeaseCell) -> Span {
        Span
    }
}

#[cfg(not(feature = "tracing"))]
pub(crate) use without_tracing::*;
