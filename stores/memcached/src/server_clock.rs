//! How far the server's clock may be behind.
//!
//! Memcached counts the expiry of an item by a clock that a timer sets once a second. While the server runs, this clock
//! is little more than a second late. But after a pause (a paused machine, SIGSTOP), the server executes waiting
//! commands before its timer runs. The items that it writes then expire too early, by the length of the pause. The
//! reply does not show this. So an item is written for a longer time: plus the time since the server was last known to
//! run with its timer.

use std::time::Duration;

use distlock_store::engine::Time;

/// How late the timer of a running server may be on a busy machine.
const TIMER_MAY_LAG: Duration = Duration::from_millis(250);

/// The replies as evidence of the server's clock, between two restarts of the server.
#[derive(Debug)]
pub(super) struct ServerClock {
    /// The server, and after that its timer, ran after this time.
    ran: Time,
    /// When a later command was sent, and when its reply arrived. The reply proves that the server ran. It proves that
    /// the timer ran, too, as soon as the reply is so old that the timer can no longer be late.
    answer: Option<(Time, Time)>,
}

impl ServerClock {
    /// For a connection that was begun at this time. The thread that accepts it also runs the timer.
    pub(super) fn accepted_after(begun: Time) -> Self {
        ServerClock { ran: begun, answer: None }
    }

    /// Records that a command that was sent at `sent` is answered now.
    pub(super) fn answered(&mut self, sent: Time, now: Time) {
        self.look_at_answer(now);
        self.answer.get_or_insert((sent, now));
    }

    /// How much more than its tick the clock may be behind for a command that is sent now.
    pub(super) fn behind(&mut self, now: Time) -> Duration {
        self.look_at_answer(now);
        now.duration_since(self.ran) + TIMER_MAY_LAG
    }

    fn look_at_answer(&mut self, now: Time) {
        if let Some((sent, _)) = self.answer.take_if(|(_, came)| now.duration_since(*came) >= TIMER_MAY_LAG) {
            self.ran = sent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::meta::{TICK, Ttl};
    use super::*;

    fn at(millis: u64) -> Time {
        Time(millis * 1_000_000)
    }

    #[test]
    fn an_answer_counts_from_its_sending_once_it_is_old_enough() {
        let mut clock = ServerClock::accepted_after(at(1_000));
        let behind = |clock: &mut ServerClock, now| clock.behind(at(now)) - TIMER_MAY_LAG;
        assert_eq!(behind(&mut clock, 1_300), Duration::from_millis(300));
        clock.answered(at(2_000), at(2_005));
        // The server may have been paused until now.
        assert_eq!(behind(&mut clock, 2_006), Duration::from_millis(1_006));
        // Further replies do not delay this.
        clock.answered(at(2_100), at(2_101));
        assert_eq!(behind(&mut clock, 2_255), Duration::from_millis(255));
        clock.answered(at(9_000), at(9_001));
        assert_eq!(behind(&mut clock, 9_002), Duration::from_millis(7_002));
    }

    /// A model of the server: its timer drifts, shows whole seconds, and does not fire while the server is paused, and
    /// for up to `TIMER_MAY_LAG` after that. At whatever times the replies arrive, an item lasts for the requested time
    /// from its request. It would not if it were written for a shorter time.
    #[test]
    fn an_item_lasts_for_its_ttl_wherever_the_server_stood_still() {
        let (mut without_stop, mut without_tick) = (0, 0);
        let mut rng = fastrand::Rng::with_seed(23);
        for round in 0..20_000 {
            let stop = rng.u64(3_000..4_000);
            let goes_on = stop + rng.u64(0..6_000);
            // The times at which the timer fires: it drifts, it is late, and it does not fire while the server is
            // paused.
            let (mut ticks, mut next) = (Vec::new(), rng.u64(0..1_000));
            while next < 40_000 {
                let in_stop = (stop..goes_on).contains(&next);
                next = if in_stop { goes_on + rng.u64(0..250) } else { next };
                ticks.push(next);
                next += 1_000 + rng.u64(0..20) * rng.u64(0..12);
            }
            // The time that the clock shows at a given time.
            let shows =
                |now: u64| ticks.iter().rev().find(|tick| **tick <= now).map_or(0, |tick| tick / 1_000);
            // A paused server replies when it resumes.
            let runs = |sent: u64| if (stop..goes_on).contains(&sent) { goes_on } else { sent };
            let mut clock = ServerClock::accepted_after(at(1_000));
            let mut now = 1_000;
            let asked = rng.u64(2_500..goes_on + 600);
            loop {
                let sent = now + rng.u64(1..1_000);
                let came = runs(sent) + rng.u64(0..40);
                if came >= asked {
                    break;
                }
                clock.answered(at(sent), at(came));
                now = came;
            }
            let ttl = rng.u64(1..5_000);
            let behind = clock.behind(at(asked));
            let lasts = |behind| Ttl::at_least(Duration::from_millis(ttl), at(asked), behind).seconds();
            let written = runs(asked + rng.u64(0..30));
            let gone = |seconds| {
                let end = shows(written) + seconds;
                *ticks.iter().find(|tick| **tick / 1_000 >= end).expect("it ends")
            };
            let gone_at = gone(lasts(behind));
            assert!(gone_at >= asked + ttl, "round {round}: asked at {asked} for {ttl}, gone at {gone_at}");
            without_stop += u32::from(gone(lasts(TIMER_MAY_LAG)) < asked + ttl);
            without_tick += u32::from(gone(lasts(behind) - TICK.as_secs()) < asked + ttl);
        }
        assert!(without_stop > 0 && without_tick > 0, "{without_stop} {without_tick}");
    }
}
