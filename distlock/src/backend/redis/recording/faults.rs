//! The faults of the links of a run's processes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use distlock_fixtures::{Direction, Proxy};
use fastrand::Rng;

use super::super::test_server::let_pass;

/// Until the run is over. Returns how many there were.
pub(super) fn inject(proxies: &[Proxy], rng: &mut Rng, is_over: &AtomicBool) -> usize {
    let mut count = 0;
    while !is_over.load(Ordering::Acquire) {
        let_pass(millis(rng, 10..80));
        one(&proxies[rng.usize(..proxies.len())], rng);
        count += 1;
    }
    count
}

fn one(proxy: &Proxy, rng: &mut Rng) {
    let direction = if rng.bool() { Direction::Requests } else { Direction::Replies };
    match rng.u8(..6) {
        0 | 1 => proxy.cut(),
        2 => {
            proxy.delay(direction, millis(rng, 2..40));
            let_pass(millis(rng, 20..150));
            proxy.pass();
        }
        3 => {
            proxy.hold(direction);
            let_pass(millis(rng, 5..150));
            if rng.bool() {
                proxy.cut();
            }
            proxy.pass();
        }
        // For longer than a lease lasts, now and then.
        4 => {
            proxy.swallow(direction);
            let_pass(millis(rng, 50..500));
            proxy.cut();
            proxy.pass();
        }
        _ => {
            proxy.refuse();
            let_pass(millis(rng, 20..400));
            proxy.pass();
        }
    }
}

fn millis(rng: &mut Rng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(rng.u64(range))
}
