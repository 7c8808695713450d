//! The same schedule for all instances: multiples of the interval on the wall clock, as in cron.

use std::{
    ops::Range,
    time::{Duration, SystemTime},
};

/// How often the job is due.
pub(crate) const EVERY: Duration = Duration::from_millis(500);
/// A process that is later than this skips the interval, because the lock of the interval may already be released.
const TOO_LATE: Duration = Duration::from_millis(250);

/// Intervals, counted from 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl Schedule {
    /// A schedule of `count` intervals, after `ahead` others.
    pub(crate) fn starting_in(ahead: u64, count: u64) -> Self {
        let now = since_1970().as_millis() / EVERY.as_millis();
        Self { first: u64::try_from(now).unwrap_or(0) + 1 + ahead, count }
    }

    pub(crate) fn intervals(self) -> Range<u64> {
        self.first..self.first + self.count
    }
}

/// Waits for an interval to begin. Returns `false` if it began too long ago.
pub(crate) async fn begin_of(interval: u64) -> bool {
    let begin = Duration::from_millis(interval * u64::try_from(EVERY.as_millis()).unwrap_or(u64::MAX));
    tokio::time::sleep(begin.saturating_sub(since_1970())).await;
    since_1970().saturating_sub(begin) < TOO_LATE
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
