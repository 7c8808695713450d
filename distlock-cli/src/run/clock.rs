//! The clock that continues while the machine sleeps, like leases.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time since the machine was started. It is the same in every process.
pub(super) fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}
