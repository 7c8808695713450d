//! Spans around acquisitions and around the bodies of sections. Empty without the feature `tracing`.

use crate::protocol::LockKind;

/// A request, as its span shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestFields<'a> {
    pub(crate) label: &'a str,
    pub(crate) kind: LockKind,
    /// The first.
    pub(crate) key: &'a str,
    pub(crate) keys: usize,
}

#[cfg(feature = "tracing")]
mod with_tracing {
    use tracing::field::Empty;
    use tracing::{Level, enabled, info_span};

    use super::RequestFields;
    use crate::error::{LockError, LostReason};
    use crate::lease_cell::LeaseCell;
    use crate::observe::words::{self, KindOfLock};

    pub(crate) use tracing::Span;

    /// The field that OpenTelemetry's layer takes as the status of the span.
    const ERROR: &str = "ERROR";

    /// Entered whenever a request is polled. Full keys are recorded only where debug events are wanted.
    pub(crate) fn acquiring(request: &RequestFields<'_>) -> Span {
        let RequestFields { label, kind, key, keys } = *request;
        let span = info_span!(
            target: "distlock", "lock.acquire", label, kind = %KindOfLock(kind), keys, key = Empty, outcome = Empty, holder = Empty,
            "error.type" = Empty, "otel.status_code" = Empty
        );
        if enabled!(target: "distlock", Level::DEBUG) {
            span.record("key", key);
        }
        span
    }

    /// The request has ended.
    pub(crate) fn acquired<T>(span: &Span, result: &Result<T, LockError>) {
        span.record("outcome", result.as_ref().err().map_or("acquired", words::kind));
        if let Err(error) = result {
            span.record("error.type", words::error_type(error));
            span.record("otel.status_code", ERROR);
        }
        if let Err(LockError::Busy { holder: Some(holder), .. }) = result {
            span.record("holder", &**holder);
        }
    }

    /// Entered whenever the body of a section runs.
    pub(crate) fn holding(cell: &LeaseCell) -> Span {
        let span = info_span!(
            target: "distlock", "lock.hold", label = &*cell.label, kind = %KindOfLock(cell.kind), token = cell.token.number(), key = Empty,
            reason = Empty, "error.type" = Empty, "otel.status_code" = Empty
        );
        if enabled!(target: "distlock", Level::DEBUG) {
            span.record("key", &*cell.key);
        }
        span
    }

    /// The body has ended, or is dropped. `state`: whether its locks were held until then.
    pub(crate) fn held(span: &Span, state: impl FnOnce() -> Result<(), LockError>) {
        if span.is_disabled() {
            return;
        }
        match state() {
            // Released is what a section is that was dropped from outside.
            Ok(()) | Err(LockError::Lost { reason: LostReason::Released, .. }) => {}
            Err(LockError::Lost { reason, .. }) => {
                span.record("reason", tracing::field::display(reason));
                span.record("error.type", "lost");
                span.record("otel.status_code", ERROR);
            }
            Err(_) => {}
        }
    }
}

#[cfg(feature = "tracing")]
pub(crate) use with_tracing::*;

#[cfg(not(feature = "tracing"))]
mod without_tracing {
    use super::RequestFields;
    use crate::error::LockError;
    use crate::lease_cell::LeaseCell;

    #[derive(Debug)]
    pub(crate) struct Span;

    impl Span {
        pub(crate) fn in_scope<T>(&self, work: impl FnOnce() -> T) -> T {
            work()
        }
    }

    pub(crate) fn acquiring(_: &RequestFields<'_>) -> Span {
        Span
    }

    pub(crate) fn acquired<T>(_: &Span, _: &Result<T, LockError>) {}

    pub(crate) fn holding(_: &LeaseCell) -> Span {
        Span
    }

    pub(crate) fn held(_: &Span, _: impl FnOnce() -> Result<(), LockError>) {}
}

#[cfg(not(feature = "tracing"))]
pub(crate) use without_tracing::*;
