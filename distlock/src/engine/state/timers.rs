//! When something happens to a key by itself.

use crate::protocol::Time;

/// What a key can be due for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The server is to be asked (again) for the lock.
    AcquireRetry,
    /// A question for the lock was not answered for so long that it is sent once more.
    AcquireResend,
    /// A lease is to be renewed.
    Renewal,
    /// A hold ends, unless its lease has been renewed by then.
    LeaseEnd,
    /// A waiter gives up on the lock.
    WaitEnd,
    /// A waiter gives up on a server that does not answer.
    ReachEnd,
}

impl Timer {
    const COUNT: usize = Timer::ReachEnd as usize + 1;
}

/// The timers of one key, each with the earliest time of its kind. They are read off the key's state after every
/// event, so none can be forgotten or left behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timers([Option<Time>; Timer::COUNT]);

impl Timers {
    /// `None`: it is not set. A time that was too far away to be counted never comes.
    pub(crate) fn set(&mut self, timer: Timer, at: Option<Time>) {
        self.0[timer as usize] = at.filter(|at| *at < Time::MAX);
    }

    /// The earliest of all.
    pub(crate) fn next(&self) -> Option<Time> {
        self.0.iter().flatten().min().copied()
    }
}

pub(crate) fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    a.into_iter().chain(b).min()
}

/// When something is to be done that needs a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// As soon as there is one.
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
        earlier(self.time(), other.time()).map_or(When::OnLinkUp, When::At)
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
