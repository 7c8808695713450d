//! Reads the suspend-proof monotonic clock.
//!
//! On Linux, `std::time::Instant` stops while a machine is suspended, but the expiry on the server does not, so a lease
//! on this clock would outlive the lease on the server. Leases are therefore measured on `CLOCK_BOOTTIME` where it
//! exists.

use crate::time::Time;

/// Now, on the suspend-proof clock.
pub fn now() -> Time {
    #[cfg(any(test, feature = "testing"))]
    if let Some(now) = simulated::now() {
        return now;
    }
    #[cfg(feature = "testing")]
    if let Some(now) = of_tokio::now() {
        return now;
    }
    read()
}

/// A test may have its thread follow tokio's clock, which can be paused.
#[cfg(feature = "testing")]
pub mod of_tokio {
    use std::cell::Cell;
    use std::thread::{self, ThreadId};

    use tokio::time::Instant;

    use super::Time;

    thread_local! {
        /// The same moment on both clocks.
        static SINCE: Cell<Option<(Time, Instant)>> = const { Cell::new(None) };
    }

    pub fn now() -> Option<Time> {
        // Fails at the end of the thread.
        let (time, instant) = SINCE.try_with(Cell::get).ok().flatten()?;
        Some(time.after(Instant::now().saturating_duration_since(instant)))
    }

    /// Until it is dropped, this thread follows tokio's clock.
    #[derive(Debug)]
    pub struct Followed(ThreadId);

    pub fn follow() -> Followed {
        SINCE.set(Some((super::read(), Instant::now())));
        Followed(thread::current().id())
    }

    impl Drop for Followed {
        fn drop(&mut self) {
            if self.0 == thread::current().id() {
                SINCE.try_with(|since| since.set(None)).ok();
            }
        }
    }
}

/// The time of a simulated world.
#[cfg(any(test, feature = "testing"))]
pub mod simulated {
    use std::cell::Cell;

    use super::Time;

    thread_local! {
        static NOW: Cell<Option<Time>> = const { Cell::new(None) };
    }

    pub fn now() -> Option<Time> {
        NOW.get()
    }

    /// While `work` runs, this thread's clock says `now`.
    pub fn at<T>(now: Time, work: impl FnOnce() -> T) -> T {
        let before = NOW.replace(Some(now));
        let result = work();
        NOW.set(before);
        result
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn read() -> Time {
    from_timespec(rustix::time::clock_gettime(rustix::time::ClockId::Boottime))
}

/// Darwin's `CLOCK_MONOTONIC` continues during sleep.
#[cfg(any(target_os = "macos", target_os = "ios"))]
fn read() -> Time {
    from_timespec(rustix::time::clock_gettime(rustix::time::ClockId::Monotonic))
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "ios"))]
fn from_timespec(t: rustix::time::Timespec) -> Time {
    let seconds = u64::try_from(t.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(t.tv_nsec).unwrap_or(0);
    Time(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

/// On Windows, `Instant` continues during sleep. Elsewhere, it is the best available clock.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "ios")))]
fn read() -> Time {
    static ORIGIN: once_cell::sync::Lazy<std::time::Instant> =
        once_cell::sync::Lazy::new(std::time::Instant::now);
    Time(1_000_000_000).after(ORIGIN.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_does_not_go_back() {
        let first = now();
        assert!(now() >= first);
    }
}
