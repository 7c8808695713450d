//! A clock that all processes of this machine agree on.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since boot, suspend included: comparable between processes.
pub fn shared_clock() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap())
}
