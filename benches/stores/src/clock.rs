//! Time, CPU time, quantiles.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`: the same clock in every process of a machine.
pub(crate) fn monotonic() -> u64 {
    nanos(ClockId::Monotonic)
}

/// The CPU time of all threads of this process.
pub(crate) fn cpu_time() -> Duration {
    Duration::from_nanos(nanos(ClockId::ProcessCPUTime))
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Blocks the thread until `monotonic()` says `at`.
pub(crate) fn sleep_until(at: u64) {
    std::thread::sleep(Duration::from_nanos(at.saturating_sub(monotonic())));
}

/// The `share` quantile (0.5: the median) in microseconds. Sorts them.
pub(crate) fn micros(samples: &mut [u64], share: f64) -> u64 {
    samples.sort_unstable();
    let last = samples.len().saturating_sub(1);
    samples.get((last as f64 * share).round() as usize).copied().unwrap_or(0) / 1_000
}
