//! Time, CPU time and memory of a process.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`: the same clock in every process of a machine.
#[must_use]
pub fn monotonic() -> u64 {
    nanos(ClockId::Monotonic)
}

/// The CPU time of all threads of this process.
#[must_use]
pub fn cpu_time() -> Duration {
    Duration::from_nanos(nanos(ClockId::ProcessCPUTime))
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds * 1_000_000_000 + nanos
}

/// Resident memory of this process, in bytes.
///
/// # Errors
/// If there is no `/proc`.
pub fn resident() -> crate::Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 =
        statm.split_whitespace().nth(1).ok_or("/proc/self/statm has no second field")?.parse()?;
    Ok(pages * u64::try_from(rustix::param::page_size())?)
}

/// Blocks the thread until `monotonic()` says `at`.
pub fn sleep_until(at: u64) {
    std::thread::sleep(Duration::from_nanos(at.saturating_sub(monotonic())));
}
