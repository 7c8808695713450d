//! A readable trace of a run. It is written only if a seed is repeated.

/// Adds a line, which is computed only if a trace is written.
macro_rules! note {
    ($world:expr, $($text:tt)*) => {
        if $world.kernel.trace.is_some() {
            let text = format!($($text)*);
            $world.kernel.note(|| text);
        }
    };
}
