//! The suspend-proof monotonic clock, and the arithmetic of lease deadlines.
//!
//! `std::time::Instant` stops while a machine is suspended (on Linux), a server's expiry does not: a lease
//! measured with it would outlive the server's. So leases are measured on `CLOCK_BOOTTIME` where there is one.

use std::time::Duration;

/// The server's clock may run this much faster than ours (1 %), in parts of 100.
const DRIFT_PERCENT: u32 = 1;
/// Granularity of the server's expiry (1 ms) and of ours.
const MARGIN: Duration = Duration::from_millis(2);

/// An instant of this process's suspend-proof clock, in nanoseconds since an arbitrary origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Time(pub(crate) u64);

impl Time {
    pub(crate) const MAX: Time = Time(u64::MAX);

    #[must_use]
    pub(crate) fn after(self, d: Duration) -> Time {
        Time(self.0.saturating_add(nanos(d)))
    }

    #[must_use]
    pub(crate) fn before(self, d: Duration) -> Time {
        Time(self.0.saturating_sub(nanos(d)))
    }

    /// The time from `earlier` to `self`, zero if it is not earlier.
    pub(crate) fn duration_since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

/// Until when a lease of `ttl`, asked for at `sent`, may be relied on: `sent + (1 − ρ)·ttl − margin`. The
/// server cannot have begun to count before `sent`, and counts at most 1 % faster.
pub(crate) fn lease_end(sent: Time, ttl: Duration) -> Time {
    let drift = if mutated!(NoDrift) { Duration::ZERO } else { drift(ttl) };
    sent.after(ttl).before(drift).before(MARGIN).max(sent)
}

/// How far the two clocks may drift apart in `age`.
pub(crate) fn drift(age: Duration) -> Duration {
    age * DRIFT_PERCENT / 100
}

/// Now, on the suspend-proof clock.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn now() -> Time {
    from_timespec(rustix::time::clock_gettime(rustix::time::ClockId::Boottime))
}

/// Now, on the suspend-proof clock. (Darwin's `CLOCK_MONOTONIC` goes on during sleep.)
#[cfg(any(target_os = "macos", target_os = "ios"))]
pub(crate) fn now() -> Time {
    from_timespec(rustix::time::clock_gettime(rustix::time::ClockId::Monotonic))
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "ios"))]
fn from_timespec(t: rustix::time::Timespec) -> Time {
    let seconds = u64::try_from(t.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(t.tv_nsec).unwrap_or(0);
    Time(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// Now. On Windows `Instant` goes on during sleep; elsewhere it is the best there is.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "ios")))]
pub(crate) fn now() -> Time {
    static ORIGIN: once_cell::sync::Lazy<std::time::Instant> =
        once_cell::sync::Lazy::new(std::time::Instant::now);
    Time(1_000_000_000).after(ORIGIN.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_lies_before_the_servers_expiry_and_never_before_the_send() {
        let sent = Time(1_000_000_000);
        let end = lease_end(sent, Duration::from_secs(10));
        assert_eq!(end.duration_since(sent), Duration::from_millis(9_898));
        assert_eq!(lease_end(sent, Duration::from_millis(1)), sent);
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Time::MAX.after(Duration::MAX), Time::MAX);
        assert_eq!(Time(5).before(Duration::MAX), Time(0));
        assert_eq!(Time(5).duration_since(Time(9)), Duration::ZERO);
    }

    #[test]
    fn the_clock_does_not_go_back() {
        let first = now();
        assert!(now() >= first);
    }
}
