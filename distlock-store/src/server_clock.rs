//! The age of a grant, by the clock of the server that made it.

use std::time::Duration;

use crate::clock;
use crate::clock_offset::ClockOffset;
use crate::events::Grant;
use crate::kit::sync::Locked;
use crate::time::{ServerTime, Time};

/// Compares a server's clock with the clock of this process, to compute the age of a grant. For stores whose server
/// writes its time into its replies and its reports.
///
/// Each reply bounds the difference of the two clocks by its round-trip time, and the bounds widen by 1 % of the
/// elapsed time. It detects a clock that was set forward.
///
/// ```
/// use std::time::Duration;
/// use distlock::store::{Grant, ServerClock};
///
/// let clock = ServerClock::new();
/// // Nothing is known yet: the owner of such a grant asks the store before it believes it.
/// assert_eq!(clock.grant(Duration::from_secs(1_000)), Grant::new());
///
/// let asking = clock.asking();
/// // Here the request is sent, and is answered with the server's time.
/// asking.answered(Duration::from_secs(1_000));
///
/// // A notification: the server granted the lock at this time. Its owner believes it at once.
/// assert_ne!(clock.grant(Duration::from_secs(1_000)), Grant::new());
/// ```
#[derive(Debug, Default)]
pub struct ServerClock(Locked<ClockOffset>);

impl ServerClock {
    /// Nothing is known of the server's clock.
    ///
    /// ```
    /// let clock = distlock::store::ServerClock::new();
    /// # drop(clock);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        ServerClock::default()
    }

    /// Call it before you send a request whose reply contains the server's time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use distlock::store::{Grant, ServerClock};
    ///
    /// let clock = ServerClock::new();
    /// let asking = clock.asking(); // before the request is sent
    /// asking.answered(Duration::from_secs(1_000));
    /// assert_ne!(clock.grant(Duration::from_secs(1_000)), Grant::new());
    /// ```
    pub fn asking(&self) -> Asking<'_> {
        Asking { clock: self, sent: clock::now() }
    }

    /// A grant that the server made at this time of its clock, in the form of [`Asking::answered`]. Its age is known if
    /// the clock is known.
    ///
    /// ```
    /// use std::time::Duration;
    /// use distlock::store::{Grant, ServerClock};
    ///
    /// let clock = ServerClock::new();
    /// assert_eq!(clock.grant(Duration::from_secs(1_000)), Grant::new()); // of unknown age
    /// ```
    pub fn grant(&self, made: Duration) -> Grant {
        let grant = Grant::new();
        self.earliest(made).map_or(grant, |earliest| grant.made_at(earliest))
    }

    /// The next reply comes from another server, or from the same server after a restart.
    ///
    /// ```
    /// use std::time::Duration;
    /// use distlock::store::{Grant, ServerClock};
    ///
    /// let clock = ServerClock::new();
    /// clock.asking().answered(Duration::from_secs(1_000));
    /// clock.forget(); // another server was connected
    /// assert_eq!(clock.grant(Duration::from_secs(1_000)), Grant::new());
    /// ```
    pub fn forget(&self) {
        self.0.lock().forget();
    }

    /// The server's clock showed this at that time, or later.
    fn earliest(&self, made: Duration) -> Option<Time> {
        let (now, made) = (clock::now(), server_time(made));
        let mut clock = self.0.lock();
        if clock.received(made, now).is_some() {
            // Only the next answer says by how much the clock was set forward.
            clock.forget();
        }
        let (_, high) = clock.offset(now)?;
        let nanos = i128::from(now.0) + high - i128::from(made.0) * 1_000;
        Some(now.before(Duration::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))))
    }
}

/// A request whose reply contains the server's time.
///
/// ```
/// use std::time::Duration;
/// use distlock::store::{Grant, ServerClock};
///
/// let clock = ServerClock::new();
/// let asking = clock.asking();
/// // … the server answers, and says what its clock shows
/// asking.answered(Duration::from_secs(1_000));
/// # let _: Grant = clock.grant(Duration::from_secs(1_000));
/// ```
#[derive(Debug)]
#[must_use = "the clocks are compared when the request is answered"]
pub struct Asking<'a> {
    clock: &'a ServerClock,
    sent: Time,
}

impl Asking<'_> {
    /// The time of the server's clock while it executed the request, since any fixed moment. If this time is from
    /// before the request was sent, there can be two holders.
    ///
    /// ```
    /// use std::time::Duration;
    /// use distlock::store::{Grant, ServerClock};
    ///
    /// let clock = ServerClock::new();
    /// clock.asking().answered(Duration::from_secs(1_000));
    /// assert_ne!(clock.grant(Duration::from_secs(1_000)), Grant::new());
    /// ```
    pub fn answered(self, server_time: Duration) {
        // If the reply shows a clock step, the bounds change. Nothing else depends on the former bounds.
        let _ = self.clock.0.lock().observe(self::server_time(server_time), self.sent, clock::now());
    }
}

fn server_time(since: Duration) -> ServerTime {
    ServerTime(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The time on our own clock, so that the test does not depend on its speed.
    fn now() -> Duration {
        Duration::from_nanos(clock::now().0)
    }

    /// The longest time that may have passed since the server's clock showed this.
    fn age_of(clock: &ServerClock, made: Duration) -> Option<Duration> {
        let asked = clock::now();
        clock.earliest(made).map(|earliest| asked.duration_since(earliest))
    }

    fn observe(clock: &ServerClock, ahead: Duration) {
        let asking = clock.asking();
        asking.answered(now() + ahead);
    }

    #[test]
    fn the_age_is_never_less_than_what_has_passed_and_hardly_more() {
        let clock = ServerClock::new();
        let ahead = SECOND * 1_000;
        let began = now();
        observe(&clock, ahead);
        let made = now();
        let age = age_of(&clock, made + ahead).unwrap();
        let ended = now();
        // An answer bounds the clock by the time that it took.
        assert!(age <= (ended - began) + SECOND / 100, "{age:?}");
        let older = age_of(&clock, made + ahead - SECOND).unwrap();
        assert!(older >= SECOND, "{older:?}");
    }

    #[test]
    fn nothing_is_known_of_another_server() {
        let clock = ServerClock::new();
        observe(&clock, SECOND);
        clock.forget();
        assert_eq!(age_of(&clock, now()), None);
    }

    #[test]
    fn a_grant_from_the_future_shows_that_the_clock_was_set_and_is_of_unknown_age() {
        let clock = ServerClock::new();
        observe(&clock, SECOND);
        assert_eq!(age_of(&clock, now() + SECOND * 60), None);
        assert_eq!(age_of(&clock, now() + SECOND), None, "nothing is known before the next answer");
        observe(&clock, SECOND * 60);
        assert!(age_of(&clock, now() + SECOND * 60).is_some());
    }

    #[test]
    fn a_clock_that_was_set_back_makes_grants_older() {
        let clock = ServerClock::new();
        observe(&clock, SECOND * 60);
        let made = now() + SECOND;
        assert!(age_of(&clock, made).unwrap() >= SECOND * 59);
    }
}
