//! The arithmetic of lease deadlines.

use super::{Time, drift, mutated};
use std::time::Duration;

/// The granularity of the server's expiry (1 ms) and of ours (1 ms).
const EXPIRY_GRANULARITY: Duration = Duration::from_millis(2);

/// Until when a lease of `ttl` that was requested at `sent` may be relied on: `sent + (1 − ρ)·ttl − margin`.
/// The server cannot have begun to count before `sent`, and counts at most 1 % faster.
pub(crate) fn lease_end(sent: Time, ttl: Duration) -> Time {
    let drift = if mutated!(NoDrift) { Duration::ZERO } else { drift(ttl) };
    sent.after(ttl).before(drift).before(EXPIRY_GRANULARITY).max(sent)
}

/// When, on our clock, the ttl of a lease is over that may be relied on until `deadline`. Adds what [`lease_end`] has
/// subtracted.
pub(crate) fn ttl_end(deadline: Time, ttl: Duration) -> Time {
    deadline.after(drift(ttl)).after(EXPIRY_GRANULARITY)
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
}
