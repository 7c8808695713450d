//! Clocks that disagree: every process has its own, and so has the server.

use super::MICRO;
use crate::protocol::{ServerTime, Time};

/// A process's clock. It starts at any time, drifts at a constant rate, and may be stopped for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalClock {
    base: u64,
    /// Parts per million; positive is fast.
    rate: i64,
    /// The sum of all stops before the latest one.
    stood: u64,
    /// The beginning and the end of the latest stop.
    latest: (u64, u64),
}

impl LocalClock {
    pub(crate) fn new(base: u64, rate: i64) -> Self {
        LocalClock { base, rate, stood: 0, latest: (0, 0) }
    }

    /// From `now` on it says the same until `until`.
    pub(crate) fn stand_still(&mut self, now: u64, until: u64) {
        self.stood += self.latest.1 - self.latest.0;
        self.latest = (now, until);
    }

    pub(crate) fn at(self, now: u64) -> Time {
        let (from, until) = self.latest;
        let standing = now.clamp(from, until) - from;
        let run = i128::from(now) - i128::from(self.stood + standing);
        let off = run * i128::from(self.rate) / 1_000_000;
        Time(u64::try_from(i128::from(self.base) + run + off).unwrap_or(0))
    }

    /// The first true time at which this clock says `local`, or a little later.
    pub(crate) fn when(self, local: Time) -> u64 {
        let span = i128::from(local.0.saturating_sub(self.base)) * 1_000_000;
        let run = span / (1_000_000 + i128::from(self.rate));
        let now = u64::try_from(run).unwrap_or(u64::MAX).saturating_add(2).saturating_add(self.stood);
        let (from, until) = self.latest;
        if now > from { now.saturating_add(until - from) } else { now }
    }
}

/// The server's wall clock: true time, somewhere in the twenties, and steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WallClock {
    /// Microseconds.
    offset: u64,
}

impl WallClock {
    pub(crate) fn new() -> Self {
        WallClock { offset: 1_790_000_000_000_000 }
    }

    pub(crate) fn at(self, now: u64) -> ServerTime {
        ServerTime(self.offset + now / MICRO)
    }

    pub(crate) fn step(&mut self, micros: i64) {
        self.offset = self.offset.saturating_add_signed(micros);
    }
}

#[test]
fn a_clock_that_stood_still_goes_on_where_it_stopped() {
    let mut clock = LocalClock::new(1_000, 0);
    clock.stand_still(50, 80);
    clock.stand_still(100, 200);
    assert_eq!(clock.at(100), Time(1_070));
    assert_eq!(clock.at(150), Time(1_070));
    assert_eq!(clock.at(210), Time(1_080));
    assert_eq!(clock.when(Time(1_080)), 212);
}
