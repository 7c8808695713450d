//! Spans: what is entered and left, around acquisitions and around the bodies of sections. Nothing, without the
//! feature `tracing`.

use crate::protocol::Kind;

/// A request, as its span shows it.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "there are no spans"))]
pub(crate) struct Request<'a> {
    pub(crate) label: &'a str,
    pub(crate) kind: Kind,
    /// The first.
    pub(crate) key: &'a str,
    pub(crate) keys: usize,
}

#[cfg(feature = "tracing")]
mod with_tracing {
    use tracing::field::Empty;
    use tracing::{Level, enabled, info_span};

    use super::Request;
    use crate::error::LockError;
    use crate::lease_cell::LeaseCell;
    use crate::observe::words::{self, KindOfLock};

    pub(crate) use tracing::Span;

    /// Entered whenever a request is polled. Full keys are recorded only where debug events are wanted.
    pub(crate) fn acquiring(request: &Request<'_>) -> Span {
        let Request { label, kind, key, keys } = *request;
        let span = info_span!(
            target: "distlock", "lock.acquire", label, kind = %KindOfLock(kind), keys, key = Empty, outcome = Empty, holder = Empty
        );
        if enabled!(target: "distlock", Level::DEBUG) {
            span.record("key", key);
        }
        span
    }

    /// The request has ended.
    pub(crate) fn acquired<T>(span: &Span, result: &Result<T, LockError>) {
        span.record("outcome", result.as_ref().err().map_or("acquired", words::kind));
        if let Err(LockError::Busy { holder: Some(holder), .. }) = result {
            span.record("holder", &**holder);
        }
    }

    /// Entered whenever the body of a section runs.
    pub(crate) fn holding(cell: &LeaseCell) -> Span {
        let span = info_span!(
            target: "distlock", "lock.hold", label = &*cell.label, kind = %KindOfLock(cell.kind), token = cell.token.number(), key = Empty
        );
        if enabled!(target: "distlock", Level::DEBUG) {
            span.record("key", &*cell.key);
        }
        span
    }
}

#[cfg(feature = "tracing")]
pub(crate) use with_tracing::*;

#[cfg(not(feature = "tracing"))]
mod without_tracing {
    use super::Request;
    use crate::error::LockError;
    use crate::lease_cell::LeaseCell;

    #[derive(Debug)]
    pub(crate) struct Span;

    impl Span {
        pub(crate) fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
            work()
        }
    }

    pub(crate) fn acquiring(_: &Request<'_>) -> Span {
        Span
    }

    pub(crate) fn acquired<T>(_: &Span, _: &Result<T, LockError>) {}

    pub(crate) fn holding(_: &LeaseCell) -> Span {
        Span
    }
}

#[cfg(not(feature = "tracing"))]
pub(crate) use without_tracing::*;
