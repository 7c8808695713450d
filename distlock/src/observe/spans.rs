//! Spans: what is entered and left, around acquisitions and around the bodies of sections. Nothing, without the
//! feature `tracing`.

#[cfg(feature = "tracing")]
mod with_tracing {
    use tracing::{Instrument, info_span};

    use crate::lease_cell::LeaseCell;

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
    use crate::lease_cell::LeaseCell;

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
