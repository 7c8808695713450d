//! The timers of a key.

use crate::protocol::Time;

/// The reasons for which a key can be due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The server has to be asked (again) for the lock.
    AcquireRetry,
    /// An acquire command has no reply and has to be sent again.
    AcquireResend,
    /// A lease has to be renewed.
    Renewal,
    /// A hold ends, unless its lease is renewed before.
    LeaseEnd,
    /// A lease that no request holds is released.
    LingerEnd,
    /// A waiter's time limit for the lock is over.
    WaitEnd,
    /// A waiter's time limit for an unreachable server is over.
    ReachEnd,
}

impl Timer {
    const COUNT: usize = Timer::ReachEnd as usize + 1;
}

/// The timers of one key: the earliest time of each kind. They are computed from the key's state after every
/// event, so none can be forgotten or outdated.
///
/// A timer that is not set has the latest time that there is: a comparison is then all that a timer costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timers([Time; Timer::COUNT]);

impl Default for Timers {
    fn default() -> Self {
        Timers([Time::MAX; Timer::COUNT])
    }
}

impl Timers {
    /// `None`: not set. A time too far away to be represented counts as not set.
    pub(crate) fn set(&mut self, timer: Timer, at: Option<Time>) {
        self.0[timer as usize] = at.unwrap_or(Time::MAX);
    }

    /// The earliest of all timers.
    pub(crate) fn next(&self) -> Option<Time> {
        let next = self.0.iter().copied().fold(Time::MAX, Time::min);
        (next < Time::MAX).then_some(next)
    }
}

pub(crate) fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_timer_that_is_set_is_the_next() {
        let mut timers = Timers::default();
        assert_eq!(timers.next(), None);
        timers.set(Timer::WaitEnd, Some(Time(5)));
        timers.set(Timer::Renewal, Some(Time(3)));
        timers.set(Timer::ReachEnd, Some(Time::MAX));
        assert_eq!(timers.next(), Some(Time(3)));
        timers.set(Timer::Renewal, None);
        assert_eq!(timers.next(), Some(Time(5)));
    }
}
