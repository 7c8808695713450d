//! Log events, if logging is compiled in. A subscriber that panics must not end a connection.

#[cfg(feature = "tracing")]
use crate::contained::contained;

/// A fact that the operator of the server should change.
pub(super) fn warn(text: &str) {
    #[cfg(feature = "tracing")]
    drop(contained(|| tracing::warn!(target: "distlock", "{text}")));
    #[cfg(not(feature = "tracing"))]
    let _: &str = text;
}

/// A fact that explains later events.
pub(super) fn debug(text: &str) {
    #[cfg(feature = "tracing")]
    drop(contained(|| tracing::debug!(target: "distlock", "{text}")));
    #[cfg(not(feature = "tracing"))]
    let _: &str = text;
}
