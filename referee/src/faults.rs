//! The faults of processes, links and the server, at instants that the seed decides.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use distlock_fixtures::{Direction, Proxy};
use fastrand::Rng;

use crate::{
    history::{Fault, FaultKind},
    place::Place,
    process::locked,
    servers::Server,
};

/// The longest pause between two faults of a kind, in milliseconds.
const LONGEST_PAUSE_MS: u64 = 1_500;
/// The longest time before a killed server is restarted, in milliseconds.
const LONGEST_DEATH_MS: u64 = 1_000;
/// The longest delay of a slow link, in milliseconds.
const LONGEST_DELAY_MS: u64 = 300;

/// The clock, and the end of all faults.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) start: Instant,
    pub(crate) end: Duration,
    pub(crate) ttl: Duration,
}

impl Plan {
    /// Sleeps up to this time, and not past the end. Returns whether there is time for another fault.
    fn pause(self, millis: u64) -> bool {
        let left = self.end.saturating_sub(self.start.elapsed());
        std::thread::sleep(left.min(Duration::from_millis(millis)));
        self.start.elapsed() < self.end
    }

    /// From a short time to two and a half ttls, in milliseconds. Some leases survive it, and some do not.
    fn length(self, rng: &mut Rng) -> u64 {
        rng.u64(20..u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX / 4) * 5 / 2)
    }
}

/// Faults that happened.
pub(crate) type Faults = Mutex<Vec<Fault>>;

/// Runs one fault after the other until the end.
fn lane(
    plan: Plan,
    faults: &Faults,
    mut rng: Rng,
    kinds: &[FaultKind],
    mut strike: impl FnMut(FaultKind, &mut Rng) -> Option<u64>,
) {
    if kinds.is_empty() {
        return;
    }
    while plan.pause(rng.u64(50..LONGEST_PAUSE_MS)) {
        let kind = kinds[rng.usize(..kinds.len())];
        let from = plan.start.elapsed();
        let process = strike(kind, &mut rng);
        locked(faults).push(Fault { kind, process, from, until: plan.start.elapsed() });
    }
}

/// Stops and kills processes.
pub(crate) fn processes(plan: Plan, faults: &Faults, rng: Rng, kinds: &[FaultKind], places: &[Arc<Place>]) {
    lane(plan, faults, rng, kinds, |kind, rng| {
        let place = &places[rng.usize(..places.len())];
        let process = place.process();
        if kind == FaultKind::Stop {
            process.stop();
            plan.pause(plan.length(rng));
            process.cont();
        } else {
            process.kill(plan.start.elapsed());
            place.replace();
        }
        Some(process.number)
    });
}

/// Cuts and delays links.
pub(crate) fn links(plan: Plan, faults: &Faults, rng: Rng, kinds: &[FaultKind], places: &[Arc<Place>]) {
    lane(plan, faults, rng, kinds, |kind, rng| {
        let place = &places[rng.usize(..places.len())];
        // If the process is replaced meanwhile, the fault counts for all processes, so that no library is blamed
        // wrongly.
        let before = place.process().number;
        if let Some(link) = &place.link {
            if kind == FaultKind::Cut {
                cut(link, rng)
            } else {
                delay(link, rng)
            }
            plan.pause(plan.length(rng));
            link.pass();
            if kind == FaultKind::Cut {
                // A connection that has lost bytes stays silent until it is closed.
                link.cut();
            }
        }
        (place.process().number == before).then_some(before)
    });
}

fn cut(link: &Proxy, rng: &mut Rng) {
    match rng.u32(..4) {
        0 => link.cut(),
        1 => link.refuse(),
        2 => link.swallow(Direction::Replies),
        _ => link.swallow_all(),
    }
}

fn delay(link: &Proxy, rng: &mut Rng) {
    let direction = if rng.bool() { Direction::Requests } else { Direction::Replies };
    if rng.bool() {
        link.delay(direction, Duration::from_millis(rng.u64(2..LONGEST_DELAY_MS)));
    } else {
        link.hold(direction);
    }
}

/// A paused machine stops all processes. If this thread is not scheduled for a quarter of a ttl, that counts as a stop
/// of all.
pub(crate) fn watch_the_machine(plan: Plan, faults: &Faults) {
    let (tick, stall) = (Duration::from_millis(10), plan.ttl / 4);
    let mut before = plan.start.elapsed();
    while plan.pause(10) {
        let now = plan.start.elapsed();
        if now.saturating_sub(before) > tick + stall {
            locked(faults).push(Fault { kind: FaultKind::Stop, process: None, from: before, until: now });
        }
        before = now;
    }
}

/// Stops, kills and restarts the server.
pub(crate) fn server(plan: Plan, faults: &Faults, rng: Rng, kinds: &[FaultKind], server: &mut Server) {
    lane(plan, faults, rng, kinds, |_, rng| {
        if server.is_durable() && rng.u32(..3) == 0 {
            server.kill();
            plan.pause(rng.u64(..LONGEST_DEATH_MS));
            server.restart();
        } else {
            server.stop();
            plan.pause(plan.length(rng));
            server.cont();
        }
        None
    });
}
