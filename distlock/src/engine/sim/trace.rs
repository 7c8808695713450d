//! A readable account of a run; written only when a seed is run again.

/// Adds a line, without computing it when nobody reads it.
macro_rules! note {
    ($world:expr, $($text:tt)*) => {
        if let Some(trace) = &mut $world.trace {
            trace.push(format!("{:>12.3} ms  {}", $world.now as f64 / 1e6, format_args!($($text)*)));
        }
    };
}
