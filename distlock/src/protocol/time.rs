//! Instants of this process's clock and of the server's clock, and the arithmetic of lease deadlines.

use super::mutated;
use std::time::Duration;

/// The server's clock may run this many per cent faster than ours.
const DRIFT_PERCENT: u32 = 1;
/// The granularity of the server's expiry (1 ms) and of ours (1 ms).
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

    /// The time from `earlier` to `self`; zero if `earlier` is not earlier.
    pub(crate) fn duration_since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

/// Until when a lease of `ttl` that was requested at `sent` may be relied on: `sent + (1 − ρ)·ttl − margin`.
/// The server cannot have begun to count before `sent`, and counts at most 1 % faster.
pub(crate) fn lease_end(sent: Time, ttl: Duration) -> Time {
    let drift = if mutated!(NoDrift) { Duration::ZERO } else { drift(ttl) };
    sent.after(ttl).before(drift).before(MARGIN).max(sent)
}

/// When, on our clock, the ttl is over of a lease that may be relied on until `deadline`. Adds what
/// [`lease_end`] has subtracted.
pub(crate) fn ttl_end(deadline: Time, ttl: Duration) -> Time {
    deadline.after(drift(ttl)).after(MARGIN)
}

/// How far the two clocks may drift apart during `age`.
pub(crate) fn drift(age: Duration) -> Duration {
    age * DRIFT_PERCENT / 100
}

/// When to do something that needs a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// As soon as there is a link.
    OnLinkUp,
    At(Time),
}

impl When {
    pub(crate) fn time(self) -> Option<Time> {
        match self {
            When::OnLinkUp => None,
            When::At(at) => Some(at),
        }
    }

    pub(crate) fn or_earlier(self, other: When) -> When {
        let sooner = self.time().into_iter().chain(other.time()).min();
        sooner.map_or(When::OnLinkUp, When::At)
    }
}

/// Microseconds of the server's wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ServerTime(pub(crate) u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_lies_before_the_servers_expiry_and_never_before_the_send() {
        let sent = Time(1_000_000_000);
        let end = lease_end(sent, Duration::from_secs(10));
        assert_eq!(end.duration_since(sent), Duration::from_millis(9_898));
        assert_eq!(lease_end(sent, Duration::from_millis(1)), sent);
        let ttl = Duration::from_secs(10);
        assert_eq!(ttl_end(end, ttl), sent.after(ttl));
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Time::MAX.after(Duration::MAX), Time::MAX);
        assert_eq!(Time(5).before(Duration::MAX), Time(0));
        assert_eq!(Time(5).duration_since(Time(9)), Duration::ZERO);
    }
}
