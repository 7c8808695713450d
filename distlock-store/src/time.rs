//! Instants of this process's clock and of a server's clock.

use std::time::Duration;

/// The server's clock may run this many per cent faster than ours.
const DRIFT_PERCENT: u32 = 1;

/// An instant of this process's suspend-proof clock, in nanoseconds since an arbitrary origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Time(pub u64);

impl Time {
    pub const MAX: Time = Time(u64::MAX);

    #[must_use]
    pub fn after(self, d: Duration) -> Time {
        Time(self.0.saturating_add(nanos(d)))
    }

    #[must_use]
    pub fn before(self, d: Duration) -> Time {
        Time(self.0.saturating_sub(nanos(d)))
    }

    /// The time from `earlier` to `self`; zero if `earlier` is not earlier.
    #[must_use]
    pub fn duration_since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

/// How far the two clocks may drift apart during `age`.
#[must_use]
pub fn drift(age: Duration) -> Duration {
    age * DRIFT_PERCENT / 100
}

/// Microseconds of the server's wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerTime(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Time::MAX.after(Duration::MAX), Time::MAX);
        assert_eq!(Time(5).before(Duration::MAX), Time(0));
        assert_eq!(Time(5).duration_since(Time(9)), Duration::ZERO);
    }
}
