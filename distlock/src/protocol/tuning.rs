//! How the queue on the server behaves, and when a key is left free for clients that poll.

use std::sync::Arc;
use std::time::Duration;

use super::session::Session;

/// The clocks whose time is in the replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clocks {
    /// One server's: times that contradict each other show that the clock was stepped.
    One,
    /// The clocks of several servers, each with its own share of the keys: times for different keys must not
    /// be compared.
    Many,
}

/// The event that ends the lease of a dead holder.
#[derive(Clone, Debug)]
pub(crate) enum LeaseEnds {
    /// Its ttl, which the store may have rounded up to a multiple of `granularity`.
    WithTtl { granularity: Duration },
    /// The end of the session. While the session lives, the process that held a lease releases it when its
    /// ttl is over.
    WithSession(Arc<Session>),
}

impl LeaseEnds {
    pub(crate) fn session(&self) -> Option<&Arc<Session>> {
        match self {
            LeaseEnds::WithTtl { .. } => None,
            LeaseEnds::WithSession(session) => Some(session),
        }
    }
}

/// Whether a client is notified that another client wants its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// If its token says that its lease may linger, and while pushes are heard.
    Pushed,
    NeverTold,
}

/// The source of the fencing tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fences {
    /// They follow the clock that the times in replies and pushes are read from, in microseconds.
    OfTheClock,
    OfTheStore,
}

/// How a waiter polls if it is not notified of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PollPauses {
    pub(crate) first: Duration,
    /// Each pause is twice as long as the one before, up to this.
    pub(crate) longest: Duration,
}

impl Default for PollPauses {
    fn default() -> Self {
        PollPauses { first: Duration::from_millis(10), longest: Duration::from_millis(100) }
    }
}

/// How the queue on the server behaves. The same for every client of a deployment.
#[derive(Clone, Debug)]
pub(crate) struct Tuning {
    /// The lifetime of a queue entry without a heartbeat.
    pub(crate) queue_entry_ttl: Duration,
    /// The length of a gap, in which a key under contention is left free for plain pollers; zero: no gaps.
    pub(crate) poll_gap: Duration,
    /// The average interval between such gaps; see [`Tuning::poll_gap_is_due`]. Zero while `poll_gap` is not
    /// zero: this is one of several servers. Then no gap is made, waiters that poll are passed over, and the
    /// reply to a release tells whether the lock was handed on.
    pub(crate) poll_gap_interval: Duration,
    pub(crate) clocks: Clocks,
    pub(crate) leases: LeaseEnds,
    /// The most fencing tokens that can be reserved at once.
    pub(crate) most_fences: u32,
    pub(crate) wanted: Wanted,
    pub(crate) fences: Fences,
    pub(crate) polls: PollPauses,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            queue_entry_ttl: Duration::from_secs(10),
            // For the length of the gap, a waiter waits longer than usual. How soon a client that polls meets one
            // depends on their share of the time alone: 5 ms in 100 ms serve it as soon as 10 ms in 200 ms, after 2 s
            // if it polls every 100 ms, and cost a key that is always busy about as much, 4 % of its sections.
            poll_gap: Duration::from_millis(5),
            poll_gap_interval: SHORTEST_INTERVAL,
            clocks: Clocks::One,
            leases: LeaseEnds::WithTtl { granularity: Duration::from_millis(1) },
            most_fences: 1024,
            wanted: Wanted::Pushed,
            fences: Fences::OfTheClock,
            polls: PollPauses::default(),
        }
    }
}

/// Gaps come so often if they are short, …
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
/// … and so often if they are long.
const LONGEST_INTERVAL: Duration = Duration::from_millis(200);

/// The golden ratio.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

impl Tuning {
    /// The same with gaps of another length, and as often as fits them.
    pub(crate) fn with_gaps(self, poll_gap: Duration) -> Tuning {
        let poll_gap_interval = poll_gap.saturating_mul(20).clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
        Tuning { poll_gap, poll_gap_interval, ..self }
    }

    /// Whether a run of hand-offs that began at `handoffs_began` has to be interrupted by a gap now; both in
    /// microseconds of one clock. The scripts use the same formula (see scripts/gap.lua).
    ///
    /// A client that polls gets the key if one of its polls falls into a gap. So gaps must not be periodic:
    /// with any fixed interval they would always miss a client whose polling interval is related to it. There
    /// is one gap in each `poll_gap_interval` of the clock, at a pseudo-random place that is the same for
    /// every process and script.
    pub(crate) fn poll_gap_is_due(&self, handoffs_began: u64, now: u64) -> bool {
        if self.poll_gap.is_zero() || self.poll_gap_interval.is_zero() {
            return !self.poll_gap.is_zero();
        }
        let (poll_gap_interval, now) = (self.poll_gap_interval.as_micros() as f64, now as f64);
        let place = |number: f64| (number * GOLDEN * (1.0 + number / 1000.0)).fract();
        let at = |number: f64| (number + place(number % 65_536.0)) * poll_gap_interval;
        let number = (now / poll_gap_interval).floor();
        let latest = if at(number) > now { at(number - 1.0) } else { at(number) };
        (handoffs_began as f64) < latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000;
    /// How long clients in other languages wait before they give up.
    const TIME_OUT: u64 = 10_000 * MILLI;
    /// Some day of 2026.
    const START: u64 = 1_795_000_000_000_000;

    /// When a client that polls with this interval, starting at `phase`, first falls into a gap of a key that
    /// is released every millisecond.
    fn wait(tuning: &Tuning, interval: u64, phase: u64) -> u64 {
        let gap = u64::try_from(tuning.poll_gap.as_micros()).unwrap();
        let (mut handoffs_began, mut now, mut poll) = (START + phase, START + phase, START + phase);
        loop {
            now += MILLI;
            if tuning.poll_gap_is_due(handoffs_began, now) {
                while poll < now {
                    poll += interval;
                }
                if poll < now + gap {
                    return poll - START - phase;
                }
                now += gap;
                handoffs_began = now;
            }
        }
    }

    #[test]
    fn one_that_polls_gets_a_gap_about_as_soon_as_chance_would_have_it_whatever_the_interval() {
        let tuning = Tuning::default();
        for interval in [50, 70, 75, 99, 100, 101, 120, 150, 160, 200, 249, 250] {
            // A poll takes a moment, too.
            let interval = interval * MILLI + 200;
            let mut waits: Vec<_> = (0..200)
                .map(|step| wait(&tuning, interval, step * 1_234_567 + step * interval / 200))
                .collect();
            waits.sort_unstable();
            let (median, nearly_all, in_time) =
                (waits[100], waits[190], waits.partition_point(|w| *w < TIME_OUT));
            // Each gap meets a poll with probability gap ÷ interval. A few clients may be unlucky, because no
            // sequence suits all intervals.
            let expected = interval * 20;
            assert!(median < expected, "{interval} us: {median} us");
            assert!(nearly_all < expected * 4, "{interval} us: {nearly_all} us");
            let least = if interval < 110 * MILLI { 196 } else { 160 };
            assert!(in_time >= least, "{interval} us: {in_time} of 200 within 10 s");
        }
    }

    #[test]
    fn gaps_are_a_small_share_of_the_time_and_none_comes_at_once() {
        let tuning = Tuning::default();
        let (mut handoffs_began, mut gaps) = (START, 0);
        for now in (START..START + 60_000 * MILLI).step_by(1_000) {
            if tuning.poll_gap_is_due(handoffs_began, now) {
                (handoffs_began, gaps) = (now, gaps + 1);
            }
        }
        assert!((570..=600).contains(&gaps), "{gaps}");
        assert!(!tuning.poll_gap_is_due(START, START));
        let none = Tuning { poll_gap: Duration::ZERO, ..tuning.clone() };
        assert!(!none.poll_gap_is_due(0, START));
        let always = Tuning { poll_gap_interval: Duration::ZERO, ..tuning };
        assert!(always.poll_gap_is_due(START, START));
    }
}
