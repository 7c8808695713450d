//! A clock that all processes of this machine share.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time since boot, including suspends. It is comparable between processes.
pub fn shared_clock() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap())
}
