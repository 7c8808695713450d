//! Events for the log, where there is one.

/// Something the operator of the server should change.
pub(super) fn warn(text: &str) {
    #[cfg(feature = "tracing")]
    tracing::warn!(target: "distlock", "{text}");
    #[cfg(not(feature = "tracing"))]
    let _: &str = text;
}

/// Something that explains what happened afterwards.
pub(super) fn debug(text: &str) {
    #[cfg(feature = "tracing")]
    tracing::debug!(target: "distlock", "{text}");
    #[cfg(not(feature = "tracing"))]
    let _: &str = text;
}
