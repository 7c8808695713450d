//! A readable account of a run; written only when a seed is run again.

/// Adds a line, without computing it when nobody reads it.
macro_rules! note {
    ($world:expr, $($text:tt)*) => {
        if $world.kernel.trace.is_some() {
            let text = format!($($text)*);
            $world.kernel.note(|| text);
        }
    };
}
