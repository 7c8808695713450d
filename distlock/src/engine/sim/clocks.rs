//! Clocks that disagree: every process has its own, and so has the server.

use super::config::MICRO;
use crate::backend::ServerTime;
use crate::clock::Time;

/// A process's clock: it starts anywhere, and is off by a constant rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalClock {
    base: u64,
    /// Parts per million; positive is fast.
    rate: i64,
}

impl LocalClock {
    pub(crate) fn new(base: u64, rate: i64) -> Self {
        LocalClock { base, rate }
    }

    pub(crate) fn at(self, now: u64) -> Time {
        let off = i128::from(now) * i128::from(self.rate) / 1_000_000;
        let local = i128::from(self.base) + i128::from(now) + off;
        Time(u64::try_from(local).unwrap_or(0))
    }

    /// The first true time at which this clock says `local`, or a little later.
    pub(crate) fn when(self, local: Time) -> u64 {
        let span = i128::from(local.0.saturating_sub(self.base)) * 1_000_000;
        let guess = span / (1_000_000 + i128::from(self.rate));
        u64::try_from(guess).unwrap_or(u64::MAX).saturating_add(2)
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
