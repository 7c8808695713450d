//! The process's session with a store. If leases end with the session, all of the process's leases depend on
//! it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Time, lease_end, mutated};

/// Until when the session lives. Every check of a hold reads it without a mutex; the store's adapter writes
/// it.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// When the session ends unless another heartbeat is answered, on our clock; zero while there is no
    /// session.
    deadline: AtomicU64,
    /// When the last session was lost; zero: never. Commands sent before belong to that session.
    lost: AtomicU64,
}

impl Session {
    /// A heartbeat that was sent at `sent` was answered. One from before a loss says nothing.
    pub(crate) fn answered(&self, sent: Time, timeout: Duration) {
        if sent > self.lost_at() || mutated!(HeartbeatOfLostSessionCounts) {
            self.deadline.fetch_max(lease_end(sent, timeout).0, Ordering::AcqRel);
        }
    }

    /// The session has ended, and all leases with it.
    pub(crate) fn lose(&self, now: Time) {
        // In this order: a thread that reads a later deadline also sees the loss.
        self.lost.store(now.0, Ordering::Release);
        self.deadline.store(0, Ordering::Release);
    }

    pub(crate) fn deadline(&self) -> Time {
        Time(self.deadline.load(Ordering::Acquire))
    }

    fn lost_at(&self) -> Time {
        Time(self.lost.load(Ordering::Acquire))
    }

    /// A command sent at `sent` belonged to an earlier session, whose end has undone its effect.
    pub(crate) fn is_earlier(&self, sent: Time) -> bool {
        sent <= self.lost_at() && !mutated!(AnswerOfLostSessionBelieved)
    }

    /// There is a session, or there was one and it is not yet known as lost.
    pub(crate) fn has_begun(&self) -> bool {
        self.deadline() > Time(0)
    }

    pub(crate) fn is_over(&self, now: Time) -> bool {
        now >= self.deadline()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    fn ms(n: u64) -> Time {
        Time(n * 1_000_000)
    }

    #[test]
    fn a_session_lives_from_the_sending_of_its_last_heartbeat() {
        let session = Session::default();
        assert!(session.is_over(ms(1)));
        session.answered(ms(1_000), TIMEOUT);
        assert_eq!(session.deadline(), lease_end(ms(1_000), TIMEOUT));
        // Answered out of order.
        session.answered(ms(500), TIMEOUT);
        assert_eq!(session.deadline(), lease_end(ms(1_000), TIMEOUT));
        assert!(!session.is_over(ms(10_000)) && session.is_over(ms(11_000)));
    }

    #[test]
    pub(crate) fn a_lost_session_is_not_revived_by_its_own_late_heartbeat() {
        let session = Session::default();
        session.answered(ms(1_000), TIMEOUT);
        session.lose(ms(2_000));
        session.answered(ms(1_900), TIMEOUT);
        assert!(session.is_over(ms(2_001)));
        assert!(session.is_earlier(ms(2_000)) && !session.is_earlier(ms(2_001)));
        session.answered(ms(2_001), TIMEOUT);
        assert!(!session.is_over(ms(2_002)));
    }
}
