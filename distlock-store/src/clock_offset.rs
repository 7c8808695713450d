//! The offset of the server's wall clock, and its steps, as replies show them.
//!
//! A reply that carries the server's time `s`, whose command was sent at `sent` and which was noticed at
//! `seen`, bounds the offset `server − local` to `[s − seen, s − sent]`. Bounds widen with age, because the
//! clocks may drift apart. If a reply's bounds and the widened ones do not overlap, the server's clock was
//! stepped.

use std::time::Duration;

use crate::time::{ServerTime, Time, drift};

/// By how much the server's clock was stepped, at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Forward(Duration),
    Backward(Duration),
    /// The reply is from before a step forward that is already known.
    Before(Duration),
}

/// Offsets are in nanoseconds; wide enough for any two 64-bit clocks.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    low: i128,
    high: i128,
    at: Time,
}

#[derive(Debug, Default)]
pub struct ClockOffset {
    bounds: Option<Bounds>,
    /// The time at which the latest command with a reply was sent.
    newest: Option<Time>,
    /// When the command was sent whose reply showed the latest step.
    stepped: Option<Time>,
    /// When a push showed a step forward.
    received: Option<Time>,
}

impl ClockOffset {
    /// Another server, or the same one after a restart: nothing is known of its clock.
    pub fn forget(&mut self) {
        *self = ClockOffset::default();
    }

    /// The bounds of the offset from our clock in nanoseconds, if any reply told the server's time.
    pub fn offset(&self, now: Time) -> Option<(i128, i128)> {
        let Bounds { low, high, .. } = aged(self.bounds?, now);
        Some((low, high))
    }

    /// Takes in a message of unknown age. It was sent before it was `seen`, so it bounds the offset only from
    /// below, and shows only steps forward.
    pub fn received(&mut self, server_time: ServerTime, seen: Time) -> Option<Step> {
        let old = aged(self.bounds?, seen);
        let low = i128::from(server_time.0) * 1000 - i128::from(seen.0);
        if low <= old.high {
            return None;
        }
        // The step is at least this long; the next reply shows the rest of it.
        let by = low - old.high;
        self.received = Some(seen);
        self.bounds = Some(Bounds { low: old.low + by, high: low, ..old });
        Some(Step::Forward(span(by)))
    }

    /// Takes in a reply, in any order. Reports each step once. For every reply from before a known step
    /// forward, reports by how much what it grants ends earlier.
    pub fn observe(&mut self, server_time: ServerTime, sent: Time, seen: Time) -> Option<Step> {
        let newest = self.newest;
        self.newest = newest.max(Some(sent));
        let server = i128::from(server_time.0) * 1000;
        let mut new =
            Bounds { low: server - i128::from(seen.0), high: server - i128::from(sent.0), at: seen };
        // The server's time is truncated to whole microseconds.
        new.high += 1000;
        let old = match self.bounds {
            None => {
                self.bounds = Some(new);
                return None;
            }
            Some(old) => aged(old, seen),
        };
        // Replies may be noticed out of order, so one from before a step must not show a step in the other
        // direction, even if it is the first to show that there was a step at all. Commands of one event have the
        // same `sent`, and the step may have come between them.
        let is_old =
            newest.is_some_and(|newest| sent < newest) || self.stepped.is_some_and(|stepped| sent <= stepped);
        if is_old && !old_replies_show_steps() && (new.low > old.high || new.high < old.low) {
            return before(old, new);
        }
        if self.received.is_some_and(|received| sent < received) && new.high < old.low {
            return before(old, new);
        }
        let step = if new.low > old.high {
            Some(Step::Forward(span(new.low - old.high)))
        } else if new.high < old.low {
            Some(Step::Backward(span(old.low - new.high)))
        } else {
            new.low = new.low.max(old.low);
            new.high = new.high.min(old.high);
            None
        };
        if step.is_some() {
            self.stepped = Some(sent);
        }
        self.bounds = Some(new);
        step
    }
}

/// By how much the clock went forward after `old`, a reply from before a known step.
fn before(known: Bounds, old: Bounds) -> Option<Step> {
    let by = known.low - old.high;
    (by > 0).then(|| Step::Before(span(by)))
}

fn aged(bounds: Bounds, now: Time) -> Bounds {
    let slack = i128::try_from(drift(now.duration_since(bounds.at)).as_nanos()).unwrap_or(i128::MAX / 4);
    Bounds { low: bounds.low - slack, high: bounds.high + slack, at: now.max(bounds.at) }
}

fn span(nanos: i128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// A rule that a test breaks, to see that the others notice.
fn old_replies_show_steps() -> bool {
    #[cfg(test)]
    return tests::OLD_REPLIES_SHOW_STEPS.get();
    #[cfg(not(test))]
    false
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::catch_unwind;

    use super::*;

    thread_local! {
        pub(super) static OLD_REPLIES_SHOW_STEPS: Cell<bool> = const { Cell::new(false) };
    }

    #[test]
    fn a_broken_rule_is_noticed() {
        OLD_REPLIES_SHOW_STEPS.set(true);
        let noticed = catch_unwind(a_reply_from_before_a_step_shows_no_other_step).is_err();
        OLD_REPLIES_SHOW_STEPS.set(false);
        assert!(noticed);
    }

    fn ms(n: u64) -> Time {
        Time(n * 1_000_000)
    }

    fn server_ms(n: u64) -> ServerTime {
        ServerTime(n * 1000)
    }

    #[test]
    fn replies_that_agree_within_drift_are_no_step() {
        let mut clock = ClockOffset::default();
        assert_eq!(clock.observe(server_ms(1_000_000), ms(10), ms(11)), None);
        // Ten seconds later the server is 0.9 % ahead.
        assert_eq!(clock.observe(server_ms(1_010_090), ms(10_010), ms(10_011)), None);
    }

    #[test]
    fn a_step_is_reported_once_with_its_size() {
        let mut clock = ClockOffset::default();
        clock.observe(server_ms(1_000_000), ms(10), ms(11));
        let step = clock.observe(server_ms(1_060_010), ms(20), ms(21));
        assert!(matches!(step, Some(Step::Forward(d)) if d > Duration::from_secs(59)), "{step:?}");
        assert_eq!(clock.observe(server_ms(1_060_020), ms(30), ms(31)), None);
        let back = clock.observe(server_ms(1_000_030), ms(40), ms(41));
        assert!(matches!(back, Some(Step::Backward(d)) if d > Duration::from_secs(59)), "{back:?}");
    }

    #[test]
    fn a_reply_from_before_a_step_shows_no_other_step() {
        let mut clock = ClockOffset::default();
        clock.observe(server_ms(1_000_000), ms(10), ms(11));
        let back = clock.observe(server_ms(990_015), ms(24), ms(26));
        assert!(matches!(back, Some(Step::Backward(_))), "{back:?}");
        // Sent and answered earlier, noticed later.
        assert_eq!(clock.observe(server_ms(1_000_012), ms(22), ms(27)), None);
        assert_eq!(clock.observe(server_ms(990_020), ms(29), ms(31)), None);
    }

    /// Nothing was known before the reply from after the step.
    #[test]
    fn a_reply_from_before_a_step_may_be_the_first_to_show_it() {
        let mut clock = ClockOffset::default();
        assert_eq!(clock.observe(server_ms(980_025), ms(24), ms(26)), None);
        // Sent and answered before the clock was set back, noticed later.
        assert_eq!(clock.observe(server_ms(1_000_012), ms(10), ms(27)), None);
        let forward = clock.observe(server_ms(1_000_031), ms(30), ms(32));
        assert!(matches!(forward, Some(Step::Forward(_))), "{forward:?}");
        let mut clock = ClockOffset::default();
        assert_eq!(clock.observe(server_ms(1_060_025), ms(24), ms(26)), None);
        // Sent and answered before the clock was set forward: the granted lease ends earlier.
        let before = clock.observe(server_ms(1_000_012), ms(10), ms(27));
        assert!(matches!(before, Some(Step::Before(d)) if d > Duration::from_secs(59)), "{before:?}");
    }

    #[test]
    fn a_step_between_commands_of_one_instant_is_one_step() {
        let mut clock = ClockOffset::default();
        clock.observe(server_ms(1_000_000), ms(10), ms(11));
        let back = clock.observe(server_ms(990_012), ms(20), ms(23));
        assert!(matches!(back, Some(Step::Backward(_))), "{back:?}");
        // Sent with it, answered before the step, noticed after it.
        assert_eq!(clock.observe(server_ms(1_000_011), ms(20), ms(24)), None);
        let forward = clock.observe(server_ms(1_050_022), ms(30), ms(33));
        assert!(matches!(forward, Some(Step::Forward(_))), "{forward:?}");
        let before = clock.observe(server_ms(990_021), ms(30), ms(34));
        assert!(matches!(before, Some(Step::Before(d)) if d > Duration::from_secs(59)), "{before:?}");
        assert_eq!(clock.observe(server_ms(1_050_030), ms(40), ms(41)), None);
    }

    #[test]
    fn a_reply_from_before_a_step_forward_says_by_how_much() {
        let mut clock = ClockOffset::default();
        clock.observe(server_ms(1_000_000), ms(10), ms(11));
        let step = clock.observe(server_ms(1_060_014), ms(24), ms(26));
        assert!(matches!(step, Some(Step::Forward(_))), "{step:?}");
        // Sent and answered earlier, noticed later.
        let before = clock.observe(server_ms(1_000_012), ms(22), ms(27));
        assert!(matches!(before, Some(Step::Before(d)) if d > Duration::from_secs(59)), "{before:?}");
        assert_eq!(clock.observe(server_ms(1_060_020), ms(30), ms(31)), None);
    }

    #[test]
    fn a_reply_from_before_a_step_that_a_push_showed_is_no_step_backward() {
        let mut clock = ClockOffset::default();
        clock.observe(server_ms(1_000_000), ms(10), ms(11));
        assert!(matches!(clock.received(server_ms(1_060_020), ms(30)), Some(Step::Forward(_))));
        let before = clock.observe(server_ms(1_000_015), ms(25), ms(31));
        assert!(matches!(before, Some(Step::Before(d)) if d > Duration::from_secs(59)), "{before:?}");
        assert_eq!(clock.observe(server_ms(1_060_030), ms(40), ms(41)), None);
    }

    #[test]
    fn a_push_shows_a_step_forward_and_nothing_else() {
        let mut clock = ClockOffset::default();
        clock.observe(server_ms(1_000_000), ms(10), ms(11));
        assert_eq!(clock.received(server_ms(999_000), ms(20)), None);
        assert_eq!(clock.received(server_ms(1_000_010), ms(20)), None);
        let step = clock.received(server_ms(1_060_020), ms(30));
        assert!(matches!(step, Some(Step::Forward(d)) if d > Duration::from_secs(59)), "{step:?}");
        assert_eq!(clock.observe(server_ms(1_060_030), ms(40), ms(41)), None);
    }

    #[test]
    fn a_reply_noticed_late_widens_nothing() {
        let mut clock = ClockOffset::default();
        clock.observe(server_ms(1_000_000), ms(10), ms(11));
        // Noticed four seconds after it was answered: consistent, and the tight bounds stay.
        assert_eq!(clock.observe(server_ms(1_000_010), ms(20), ms(4020)), None);
        assert!(clock.observe(server_ms(1_060_010), ms(4030), ms(4031)).is_some());
    }
}
