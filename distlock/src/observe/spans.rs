//! Spans: what is entered and left, around acquisitions and around the bodies of sections. Nothing, without the
//! feature `tracing`.

#[cfg(feature = "tracing")]
mod with_tracing {
    use tracing::info_span;

    use crate::lease_cell::LeaseCell;

    pub(crate) use tracing::Span;

    /// Entered whenever a request is polled.
    pub(crate) fn acquiring(label: &str) -> Span {
        info_span!(target: "distlock", "lock.acquire", label)
    }

    /// Entered whenever the body of a section runs.
    pub(crate) fn holding(cell: &LeaseCell) -> Span {
        info_span!(target: "distlock", "lock.hold", label = &*cell.label)
    }
}

#[cfg(feature = "tracing")]
pub(crate) use with_tracing::*;

#[cfg(not(feature = "tracing"))]
mod without_tracing {
    use crate::lease_cell::LeaseCell;

    #[derive(Debug)]
    pub(crate) struct Span;

    impl Span {
        pub(crate) fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
            work()
        }
    }

    pub(crate) fn acquiring(_: &str) -> Span {
        Span
    }

    pub(crate) fn holding(_: &LeaseCell) -> Span {
        Span
    }
}

#[cfg(not(feature = "tracing"))]
pub(crate) use without_tracing::*;
