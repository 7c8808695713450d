//! The `#[distributed_lock]` attribute of the `distlock` crate.
